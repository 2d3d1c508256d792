package pipelines

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/pipelines/profile"
)

func init() {
	register.DoFn4x1[context.Context, string, func(*[]byte) bool, func(string, []byte), error](&writeFn{})
}

// sink is a compiled WriteTo: what it writes is divided into parts, and each into shards.
type sink struct {
	// folder is the parts' in the dataset; empty when they lie in the dataset itself.
	folder string
	split  *splitter
	shards int
	format shardFormat
}

// maxShards bounds the files of one part.
const maxShards = 10_000

func compileSink(t dsl.Transform, split *splitter) (*sink, error) {
	format, c, err := compileFormat(t)
	if err != nil {
		return nil, err
	}
	if c.Shards < 0 || c.Shards > maxShards {
		return nil, fmt.Errorf("shards: %d is not between 1 and %d", c.Shards, maxShards)
	}
	if c.Path != "" && !plainName(c.Path) {
		return nil, fmt.Errorf("path: %q cannot name a folder; use letters, digits, - and _", c.Path)
	}
	return &sink{folder: c.Path, split: split, shards: max(c.Shards, 1), format: format}, nil
}

// take implements end: the rows of one shard are in one group.
func (s *sink) take(r row) (text []byte, group string, m mark, err error) {
	if text, err = encodeRow(r); err != nil {
		return nil, "", m, err
	}
	if s.format.check != nil {
		if err := s.format.check(r); err != nil {
			return nil, "", m, err
		}
	}
	part, err := s.split.part(r)
	if err != nil {
		return nil, "", m, err
	}
	m.key = digestOf(text)
	m.tie = m.key
	return text, s.shard(s.part(part), bucket(m.key, s.shards)), m, nil
}

// parts lists the parts by their folders in the dataset.
func (s *sink) parts() []string {
	var names []string
	for _, p := range s.split.parts {
		names = append(names, s.part(p.name))
	}
	return names
}

// part is the folder of a part of the split.
func (s *sink) part(name string) string {
	switch {
	case s.folder == "":
		return name
	case s.split == &allRows:
		return s.folder
	}
	return s.folder + "/" + name
}

// shard is a shard's path in the dataset.
func (s *sink) shard(part string, i int) string {
	return fmt.Sprintf("%s/part-%05d-of-%05d%s", part, i, s.shards, s.format.ext)
}

// paths yields the paths of all shards.
func (s *sink) paths() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, part := range s.parts() {
			for i := range s.shards {
				if !yield(s.shard(part, i)) {
					return
				}
			}
		}
	}
}

// writeFn writes the rows of one shard as JSON lines, sorted by their digests, and emits their profile. Where they are to be converted
// it writes beside them which columns they have.
type writeFn struct {
	// Job is the job's JSON.
	Job []byte

	work    string
	columns columns
}

// Setup compiles the profile's columns.
func (f *writeFn) Setup(context.Context) error {
	var job Job
	if err := json.Unmarshal(f.Job, &job); err != nil {
		return err
	}
	params, err := dsl.RowParams(job.ParamTypes, job.Params)
	if err != nil {
		return err
	}
	f.work = job.WorkDir
	f.columns, err = compileColumns(job, params)
	return err
}

// ProcessElement takes the packed marks of one shard, whose path in the dataset follows the end in the key. Memory: the shard's
// marks and one row.
func (f *writeFn) ProcessElement(ctx context.Context, key string, packed func(*[]byte) bool, emit func(string, []byte)) error {
	s := sessionOf(f.work)
	_, path, _ := strings.Cut(key, "/")
	p, err := f.write(ctx, path, packed)
	if err != nil {
		return s.failed(fmt.Errorf("write %s: %w", path, err))
	}
	s.rowsKept(int(p.Rows))
	s.unitDone()
	beam.NewCounter(countKept, filepath.Dir(path)).Inc(ctx, p.Rows)
	text, err := json.Marshal(p)
	if err != nil {
		return s.failed(err)
	}
	emit("", text)
	return nil
}

func (f *writeFn) write(ctx context.Context, path string, packed func(*[]byte) bool) (*profile.Profile, error) {
	var rows []mark
	var batch []byte
	for packed(&batch) {
		if err := marks(batch, func(m mark) { rows = append(rows, m) }); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(rows, func(a, b mark) int { return bytes.Compare(a.key[:], b.key[:]) })
	spills := newSpillFiles(f.work)
	defer spills.close()
	part := filepath.Dir(path)
	p := profile.New(part)
	columns := shapes{}
	path = filepath.Join(f.work, "out", path)
	converted := linesPath(path) != path
	err := createSynced(linesPath(path), func(w io.Writer) error {
		for _, m := range rows {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			text, err := spills.read(m)
			if err != nil {
				return err
			}
			r, err := decodeRow(text)
			if err != nil {
				return fmt.Errorf("a row of a spill file: %w", err)
			}
			if err := f.columns.describe(p, part, r); err != nil {
				return err
			}
			if converted {
				columns.add(r)
			}
			if _, err := w.Write(append(text, '\n')); err != nil {
				return err
			}
		}
		return nil
	})
	if converted && err == nil {
		err = writeJSON(shapesPath(path), columns)
	}
	return p, err
}

// maxOpenSpills bounds how many of them are open.
const maxOpenSpills = 128

// spillFiles reads single rows of spill files.
type spillFiles struct {
	work string
	open map[spillID]*os.File
}

func newSpillFiles(work string) *spillFiles {
	return &spillFiles{work: work, open: map[spillID]*os.File{}}
}

// file returns the file that a row lies in.
func (s *spillFiles) file(m mark) (*os.File, error) {
	id := spillID{m.segment, m.unit}
	f, ok := s.open[id]
	if ok {
		return f, nil
	}
	if len(s.open) == maxOpenSpills {
		s.close()
	}
	f, err := os.Open(spillPath(s.work, m.segment, m.unit))
	if err != nil {
		return nil, fmt.Errorf("read a spill file: %w", err)
	}
	s.open[id] = f
	return f, nil
}

// record returns a row's JSON and where it was read.
func (s *spillFiles) record(m mark) (from origin, text []byte, err error) {
	f, err := s.file(m)
	if err != nil {
		return from, nil, err
	}
	whole := io.NewSectionReader(f, int64(m.offset), int64(spillHead+m.size+2+math.MaxUint16+8))
	if from, text, _, err = readRecord(bufio.NewReaderSize(whole, spillHead+int(m.size)+512)); err != nil {
		return from, nil, fmt.Errorf("read a spill file: %w", err)
	}
	return from, text, nil
}

// read returns the JSON of a row, with place for one byte more.
func (s *spillFiles) read(m mark) ([]byte, error) {
	f, err := s.file(m)
	if err != nil {
		return nil, err
	}
	text := make([]byte, m.size, m.size+1)
	if _, err := f.ReadAt(text, int64(m.offset)+spillHead); err != nil {
		return nil, fmt.Errorf("read a spill file: %w", err)
	}
	return text, nil
}

func (s *spillFiles) close() {
	for id, f := range s.open {
		f.Close()
		delete(s.open, id)
	}
}

// createSynced creates a file, has it written through a buffer and waits until it is on the disk.
func createSynced(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(f, 256<<10)
	return errors.Join(write(out), out.Flush(), f.Sync(), f.Close())
}
