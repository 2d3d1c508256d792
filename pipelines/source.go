package pipelines

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/sluiceml/sluice/pipelines/format"
)

// source is one unit of the input: small files, or pieces of large ones.
type source struct {
	Pieces []format.Piece `json:"pieces"`
	// Keys are the cache keys of the pieces, by index. A piece without a key is not cached.
	Keys map[int]string `json:"keys,omitempty"`
}

// cutSources divides the files of a reader into units.
func cutSources(ctx context.Context, form format.Format, files []format.File) (units []source, err error) {
	var unit source
	var size int64
	flush := func() {
		if len(unit.Pieces) > 0 {
			units = append(units, unit)
		}
		unit, size = source{}, 0
	}
	for _, file := range files {
		pieces := []format.Piece{{File: file, End: file.Size}}
		if file.Size > format.UnitSize {
			if pieces, err = form.Cut(ctx, pieces[0]); err != nil {
				return nil, fmt.Errorf("read %s: %w", file.Name, err)
			}
		}
		for _, p := range pieces {
			if size+p.End-p.Start > format.UnitSize {
				flush()
			}
			unit.Pieces = append(unit.Pieces, p)
			size += p.End - p.Start
		}
	}
	flush()
	return units, nil
}

// sizeOf returns the number of units and of bytes to read.
func sizeOf(sources map[int][]numberedSource) (units, bytes int64) {
	for _, list := range sources {
		units += int64(len(list))
		for _, u := range list {
			for _, p := range u.Source.Pieces {
				bytes += p.End - p.Start
			}
		}
	}
	return units, bytes
}

// tellApart prefixes file names with the reader's name if different files of two readers have the same name, since each file has an account
// of its own. A file that two readers read counts as one file.
func (p *plan) tellApart(files map[int][]format.File) {
	known := map[string]format.File{}
	apart := true
	for _, list := range files {
		for _, f := range list {
			if other, ok := known[f.Name]; ok && (other.Path != f.Path || other.Bucket != f.Bucket) {
				apart = false
			}
			known[f.Name] = f
		}
	}
	if apart {
		return
	}
	for at, list := range files {
		for i := range list {
			list[i].Name = p.nodes[at].name + "/" + list[i].Name
		}
	}
}

// findSources lists the units of all sources by node, numbered consecutively, and the files. settle keeps of the files that were found
// those that may be read.
func (p *plan) findSources(
	ctx context.Context, settle func([]format.File) ([]format.File, error),
) (units map[int][]numberedSource, read []format.File, err error) {
	files := map[int][]format.File{}
	for at, n := range p.nodes {
		if n.source.Format == nil {
			continue
		}
		found, err := format.Find(ctx, n.source.Paths)
		if err == nil {
			found, err = settle(found)
		}
		if err != nil {
			return nil, nil, err
		}
		if n.source.Partitioned {
			format.SetPartitions(found)
		}
		files[at] = found
		read = append(read, found...)
	}
	p.tellApart(files)
	all := map[int][]numberedSource{}
	unit := uint32(0)
	for _, at := range slices.Sorted(maps.Keys(files)) {
		found, err := cutSources(ctx, p.nodes[at].source.Format, files[at])
		if err != nil {
			return nil, nil, err
		}
		for _, s := range found {
			all[at] = append(all[at], numberedSource{Unit: unit, Source: s})
			unit++
		}
	}
	return all, read, nil
}

// withoutStamps removes what files of this machine are known by: another machine may see other inodes and rounded times.
func withoutStamps(sources map[int][]numberedSource) {
	for _, list := range sources {
		for _, s := range list {
			for i := range s.Source.Pieces {
				s.Source.Pieces[i].File.Stamp = format.Stamp{}
			}
		}
	}
}
