package pipelines

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// unitBytes is how much input makes one unit of work. It is fixed, so that the dead letter does not depend on the parallelism.
const unitBytes = 4 << 20

// source is one unit of the input: small files, or pieces of large ones.
type source struct {
	Pieces []piece `json:"pieces"`
	// Keys are what the results of pieces are cached under, by their index. What is not there is not cached.
	Keys map[int]string `json:"keys,omitempty"`
}

// piece is a part of a file: the rows that start in [Start, End).
type piece struct {
	File  inputFile `json:"file"`
	Start int64     `json:"start"`
	End   int64     `json:"end"`
}

// whole reports whether the piece is all of its file, whose content may be larger than the file when it is compressed.
func (p piece) whole() bool { return p.Start == 0 && p.End == p.File.Size }

// record is one row of a file.
type record struct {
	// offset of its first byte in the file's content; in files of other than text the number of the row in the file.
	offset int64
	row    rows.Row
	// text is what can be shown of a record that is no row, and rejected then a rejection. Valid until the next record.
	text     []byte
	rejected error
}

// fileFormat reads the rows of one kind of file. It may be used from several goroutines.
type fileFormat interface {
	// Cut divides a file of more than unitBytes into pieces.
	Cut(ctx context.Context, whole piece) ([]piece, error)
	// Read calls yield for each row of a piece. What is wrong with the data is a rejection.
	Read(ctx context.Context, p piece, yield func(record) error) error
}

// reader is a compiled ReadFrom transform.
type reader struct {
	paths  dsl.Paths
	format fileFormat
}

// compileReader compiles the first transform of a chain.
func compileReader(t dsl.Transform) (r reader, err error) {
	switch t.Type {
	case "ReadFromJson":
		r, err = compileReaderAs(t, compileReadJSON)
	case "ReadFromText":
		r, err = compileReaderAs(t, compileReadText)
	case "ReadFromCsv":
		r, err = compileReaderAs(t, compileReadCSV)
	case "ReadFromParquet":
		r, err = compileReaderAs(t, compileReadParquet)
	case "ReadFromAvro":
		r, err = compileReaderAs(t, compileReadAvro)
	default:
		return r, fmt.Errorf("there is no transform of type %q", t.Type)
	}
	if err == nil && len(r.paths) == 0 {
		return r, errors.New("path: say which files to read")
	}
	return r, err
}

// compileReaderAs decodes the reader's config and hands it to the compiler of its type.
func compileReaderAs[C any](t dsl.Transform, compile func(C) (reader, error)) (reader, error) {
	config, err := rows.DecodeConfig[C](t)
	if err != nil {
		return reader{}, err
	}
	return compile(config)
}

// cutSources cuts the files of a reader into units.
func cutSources(ctx context.Context, format fileFormat, files []inputFile) (units []source, err error) {
	var unit source
	var size int64
	flush := func() {
		if len(unit.Pieces) > 0 {
			units = append(units, unit)
		}
		unit, size = source{}, 0
	}
	for _, file := range files {
		pieces := []piece{{File: file, End: file.Size}}
		if file.Size > unitBytes {
			if pieces, err = format.Cut(ctx, pieces[0]); err != nil {
				return nil, fmt.Errorf("read %s: %w", file.Name, err)
			}
		}
		for _, p := range pieces {
			if size+p.End-p.Start > unitBytes {
				flush()
			}
			unit.Pieces = append(unit.Pieces, p)
			size += p.End - p.Start
		}
	}
	flush()
	return units, nil
}

// sizeOf is how many units there are, and how many bytes they have to read.
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

// tellApart puts the name of the reader before the names of files when those of two readers are called the same: each has an account. A
// file that two readers read is one file.
func (p *plan) tellApart(files map[int][]inputFile) {
	known := map[string]inputFile{}
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

// findSources lists the units of all sources, by their node. They are numbered through.
func (p *plan) findSources(ctx context.Context) (map[int][]numberedSource, error) {
	files := map[int][]inputFile{}
	for at, n := range p.nodes {
		if n.source.format == nil {
			continue
		}
		found, err := findFiles(ctx, n.source.paths)
		if err != nil {
			return nil, err
		}
		files[at] = found
	}
	p.tellApart(files)
	all := map[int][]numberedSource{}
	unit := uint32(0)
	for _, at := range slices.Sorted(maps.Keys(files)) {
		found, err := cutSources(ctx, p.nodes[at].source.format, files[at])
		if err != nil {
			return nil, err
		}
		for _, s := range found {
			all[at] = append(all[at], numberedSource{Unit: unit, Source: s})
			unit++
		}
	}
	return all, nil
}
