package store

import (
	"cmp"
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluiceml/sluice/internal/artifact"
)

// The kinds of objects that Usage distinguishes.
const (
	KindDatasets    = "datasets"
	KindModels      = "models"
	KindWorkspaces  = "workspaces"    // the folders of pipelines, as they were submitted
	KindCheckpoints = "checkpoints"   // of trainings
	KindLogs        = "logs"          // of the programs of steps
	KindServed      = "served models" // copies of models for servers that read the bucket themselves
	KindRecords     = "records"       // of runs, versions, triggers and releases, and large values in them
	KindUnused      = "unused"        // blobs that no record refers to, directly or through other blobs
)

// kindOf maps the type of an artifact to the kind of its files. The empty type is for blobs that belong to no artifact.
var kindOf = map[artifact.Type]string{
	"": KindRecords, artifact.Dataset: KindDatasets, artifact.Model: KindModels, artifact.Checkpoint: KindCheckpoints, artifact.Workspace: KindWorkspaces,
}

// Usage is the space that the objects of one kind take.
type Usage struct {
	Files int64
	Bytes int64
	// Free is how many of the bytes can be deleted: those of objects from before the given time that no record refers to, or that are
	// checkpoints of a run that is not open.
	Free int64
}

// Usage adds up what is stored, by kind. A file that belongs to artifacts of several types counts for the first type by name. This reads
// every record; progress is called, concurrently, with the number of records read. open lists the runs that are open.
func (s *Store) Usage(ctx context.Context, before time.Time, open map[string]bool, progress func(records int64)) (map[string]Usage, error) {
	usage := map[string]Usage{}
	add := func(kind string, info Info, free bool) {
		u := usage[kind]
		u.Files++
		u.Bytes += info.Bytes
		if free && info.Modified.Before(before) {
			u.Free += info.Bytes
		}
		usage[kind] = u
	}
	var blobs []Info
	list := func(info Info) {
		below, isPart := strings.CutPrefix(info.Key, PartsPrefix)
		switch run, ofTraining := strings.CutPrefix(below, CheckpointsPrefix); {
		case strings.HasPrefix(info.Key, blobsPrefix):
			blobs = append(blobs, info)
		case ofTraining:
			run, _, _ = strings.Cut(run, "/")
			add(KindCheckpoints, info, isPart && !open[run])
		case strings.HasPrefix(info.Key, LogsPrefix):
			add(KindLogs, info, false)
		case strings.HasPrefix(info.Key, ServingPrefix):
			add(KindServed, info, false)
		default:
			add(KindRecords, info, false)
		}
	}
	var records atomic.Int64
	used, err := s.referenced(ctx, before, list, func() { progress(records.Add(1)) })
	for _, info := range blobs {
		if typ, needed := used[digestOfKey(info.Key)]; needed {
			add(cmp.Or(kindOf[typ], KindRecords), info, false)
		} else {
			add(KindUnused, info, true)
		}
	}
	return usage, err
}
