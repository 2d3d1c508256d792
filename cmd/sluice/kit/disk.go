package kit

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// DiskUse is the disk use of one kind of content.
type DiskUse struct {
	Kind  string `json:"kind"`
	Files int64  `json:"files"`
	Bytes int64  `json:"bytes"`
	// Free is how much of that `sluice data gc --checkpoints` would remove.
	Free int64 `json:"free"`
}

// The kinds of what a state folder has beside its store.
const (
	kindTemporary = "temporary files"
	kindPieces    = "piece cache"
	kindFileCache = "file cache"
	kindTemporal  = "Temporal's history"
	kindOther     = "other files"
)

// diskKinds are all kinds, in the order they are shown.
var diskKinds = []string{
	store.KindDatasets, store.KindModels, store.KindWorkspaces, store.KindCheckpoints, store.KindServed, store.KindRecords, store.KindUnused,
	kindTemporal, store.KindLogs, kindPieces, kindFileCache, kindTemporary, kindOther,
}

// UnusedAge is the minimum age of garbage that `sluice data gc` removes by default.
const UnusedAge = 24 * time.Hour

// Disk adds up the disk use of a store and a state folder by kind; kinds without content are left out. progress is called with the number
// of records read so far, possibly concurrently.
func Disk(ctx context.Context, s *store.Store, stateDir string, progress func(records int64)) ([]DiskUse, error) {
	runs, err := record.Runs(ctx, s)
	if err != nil {
		return nil, err
	}
	open := map[string]bool{}
	for _, r := range runs {
		open[r.Run] = r.Status == spec.StatusRunning
	}
	before, _ := record.Sweepable(runs, time.Now().Add(-UnusedAge))
	usage, err := s.Usage(ctx, before, open, progress)
	if err != nil {
		return nil, err
	}
	if err := addFolder(ctx, usage, s, stateDir); err != nil {
		return nil, err
	}
	all := []DiskUse{}
	for _, kind := range diskKinds {
		if u := usage[kind]; u.Files > 0 {
			all = append(all, DiskUse{Kind: kind, Files: u.Files, Bytes: u.Bytes, Free: u.Free})
		}
	}
	return all, nil
}

// addFolder adds what is in a state folder beside the store.
func addFolder(ctx context.Context, usage map[string]store.Usage, s *store.Store, stateDir string) error {
	within, _ := strings.CutPrefix(s.URL(), "file://")
	return filepath.WalkDir(stateDir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil {
			err = context.Cause(ctx)
		}
		if errors.Is(err, fs.ErrNotExist) { // it was removed meanwhile
			return nil
		}
		if err != nil {
			return err
		}
		if whole, err := filepath.Abs(path); err == nil && whole == within {
			return fs.SkipDir
		}
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() {
			return nil //nolint:nilerr // it was removed meanwhile
		}
		rel, err := filepath.Rel(stateDir, path)
		kind := folderKind(rel)
		u := usage[kind]
		u.Files++
		u.Bytes += info.Size()
		usage[kind] = u
		return err
	})
}

// folderKind is the kind of a file of a state folder.
func folderKind(path string) string {
	first, rest, inFolder := strings.Cut(filepath.ToSlash(path), "/")
	switch {
	case first == "logs", !inFolder && strings.HasSuffix(first, ".log"):
		return store.KindLogs
	case first == "tmp", first == "pools":
		return kindTemporary
	case first == "cache" && strings.HasPrefix(rest, "clean/"):
		return kindPieces
	case first == "cache" && strings.HasPrefix(rest, "files/"):
		return kindFileCache
	case strings.HasPrefix(first, "temporal-"):
		return kindTemporal
	}
	return kindOther
}
