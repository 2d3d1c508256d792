package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/internal/objectstore"
)

const (
	// maxObjects is how many objects a data trigger looks after.
	maxObjects = 100_000
	// maxFiles and maxFileBytes are how many objects, and bytes of their names, one run is started for: they travel in history. What
	// is left starts the next.
	maxFiles     = 1_000
	maxFileBytes = 256 << 10
	// remembered is how long a missing object is remembered, so that it does not count as new if it comes back unchanged.
	remembered = 7 * 24 * time.Hour
)

// KnownObject is what a data trigger knows of an object.
type KnownObject struct {
	// Version it was last seen in, and since when.
	Version string    `json:"version"`
	Since   time.Time `json:"since"`
	// Started is the version a run was started for, at the time Handed; empty: none yet.
	Started string    `json:"started,omitempty"`
	Handed  time.Time `json:"handed,omitzero"`
	// Gone is since when it has been missing.
	Gone time.Time `json:"gone,omitzero"`
}

// data is due for the objects whose version has not changed for the time of settle and has had no run.
func (state *State) data(sp spec.DataTrigger, found sightings, now time.Time) *cause {
	known := make(map[string]KnownObject, len(found))
	for url, o := range state.Objects {
		if _, there := found[url]; there {
			continue
		}
		o.Gone = cmp.Or(o.Gone, now)
		if o.Started != "" && now.Sub(o.Gone) < remembered {
			known[url] = o
		}
	}
	var settled []string
	waiting := 0
	for url, version := range found {
		o := state.Objects[url]
		o.Gone = time.Time{}
		if o.Version != version || o.Since.IsZero() {
			o.Version, o.Since = version, now
		}
		switch {
		case o.Started == version:
		case now.Sub(o.Since) >= time.Duration(sp.Settle):
			settled = append(settled, url)
		default:
			waiting++
		}
		known[url] = o
	}
	state.Objects = known
	files := firstFiles(settled)
	state.Saw = fmt.Sprintf("%s, %d new, %d not settled yet", human.Plural(int64(len(found)), "object"), len(settled), waiting)
	if len(files) == 0 {
		return nil
	}
	is := make([]string, len(files))
	for i, url := range files {
		o := known[url]
		o.Started, o.Handed = o.Version, now
		known[url] = o
		is[i] = url + "\n" + o.Version
	}
	return &cause{is: strings.Join(is, "\n"), facts: spec.TriggerFacts{Files: files}}
}

// firstFiles sorts URLs and keeps as many as one run is started for.
func firstFiles(urls []string) []string {
	slices.Sort(urls)
	bytes := 0
	for i, url := range urls {
		if bytes += len(url); i == maxFiles || i > 0 && bytes > maxFileBytes {
			return urls[:i]
		}
	}
	return urls
}

// CheckData reports why a data trigger cannot be watched: an address or a pattern that is not valid here.
func CheckData(spec spec.DataTrigger) error {
	if _, err := path.Match(spec.Glob, ""); err != nil {
		return fault.Errorf(fault.Invalid, "glob %q is not a valid pattern: write for example *.jsonl, or 2026-*/*.csv for files in folders", spec.Glob)
	}
	if isBucket(spec.URL) {
		if _, err := objectstore.ParseFolder(spec.URL); err != nil {
			return fault.Errorf(fault.Invalid, "%s cannot be watched: %v", spec.URL, err)
		}
		return nil
	}
	folder, ok := strings.CutPrefix(spec.URL, "file://")
	switch {
	case !ok:
		return fault.Errorf(fault.Invalid, "%q cannot be watched: write file:///an/absolute/folder or s3://bucket/folder", spec.URL)
	case !filepath.IsAbs(folder):
		return fault.Errorf(fault.Invalid, "%s is not the address of a folder: write file:///an/absolute/folder", spec.URL)
	}
	return nil
}

func isBucket(url string) bool { return strings.HasPrefix(url, "s3://") }

// sightings are the objects that a look found: versions by URL.
type sightings map[string]string

func (s sightings) add(url, version string) error {
	if len(s) == maxObjects {
		return fmt.Errorf("more than %s objects: narrow the selection with `glob`, or move processed files away", human.Count(maxObjects))
	}
	s[url] = version
	return nil
}

// listObjects lists what a data trigger looks at.
func listObjects(ctx context.Context, spec spec.DataTrigger) (sightings, error) {
	if err := CheckData(spec); err != nil {
		return nil, err
	}
	if isBucket(spec.URL) {
		return listBucket(ctx, spec)
	}
	return listFolder(ctx, spec)
}

// listFolder lists a folder of this machine. Only regular files count; links are not followed.
func listFolder(ctx context.Context, spec spec.DataTrigger) (sightings, error) {
	folder := strings.TrimPrefix(spec.URL, "file://")
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, fault.New(fault.Infrastructure, fmt.Sprintf("list %s: %v: does it exist, and is it readable, on the worker's machine?", spec.URL, err), err)
	}
	defer root.Close()
	found := sightings{}
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && name != "." {
			return nil // it went away while we looked
		}
		if err = cmp.Or(err, context.Cause(ctx)); err != nil || !entry.Type().IsRegular() || !matches(spec.Glob, name) {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return found.add("file://"+filepath.Join(folder, name), fmt.Sprintf("%d-%d", info.Size(), info.ModTime().UnixNano()))
	})
	if err != nil {
		return nil, fault.New(fault.Infrastructure, fmt.Sprintf("look at %s: %v", spec.URL, err), err)
	}
	return found, nil
}

// matches reports whether an object belongs to a trigger: its name matches the pattern or, when that has a slash, its path. A leading dot, also
// of a folder, must be in the pattern, as in the paths that a cleaning reads.
func matches(glob, name string) bool {
	if glob == "" {
		return true
	}
	names := strings.Split(name, "/")
	if !strings.Contains(glob, "/") {
		last := len(names) - 1
		if slices.ContainsFunc(names[:last], hidden) {
			return false
		}
		names = names[last:]
	}
	glob = strings.TrimPrefix(glob, "/")
	pattern := strings.Split(glob, "/")
	for i, n := range names {
		if hidden(n) && (i >= len(pattern) || !hidden(strings.TrimPrefix(pattern[i], `\`))) {
			return false
		}
	}
	ok, _ := path.Match(glob, strings.Join(names, "/"))
	return ok
}

// hidden reports whether a name is that of a hidden file: .DS_Store, and what programs such as rsync have not written completely yet.
func hidden(name string) bool { return strings.HasPrefix(name, ".") }
