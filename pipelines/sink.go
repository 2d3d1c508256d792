package pipelines

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/pipelines/profile"
)

func init() {
	register.DoFn4x1[context.Context, string, func(*[]byte) bool, func(string, []byte), error](&writeFn{})
}

// shardPath is a shard's path in the dataset.
func shardPath(part string, i, n int) string {
	return fmt.Sprintf("%s/part-%05d-of-%05d.jsonl", part, i, n)
}

// writeFn writes the rows of one shard, sorted by their digests, and emits their profile.
type writeFn struct {
	// Job is the job's JSON, Segment the index of the segment whose spill files hold the rows.
	Job     []byte
	Segment int

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

// ProcessElement takes the packed marks of the shard at this path of the dataset. Memory: the shard's marks and one row.
func (f *writeFn) ProcessElement(ctx context.Context, path string, packed func(*[]byte) bool, emit func(string, []byte)) error {
	s := sessionOf(f.work)
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
	spills := spillFiles{work: f.work, segment: f.Segment, open: map[uint32]*os.File{}}
	defer spills.close()
	part := filepath.Dir(path)
	p := profile.New(part)
	err := createSynced(filepath.Join(f.work, "out", path), func(w io.Writer) error {
		for _, m := range rows {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			text, err := spills.read(m)
			if err != nil {
				return err
			}
			if err := f.columns.describe(p, part, text); err != nil {
				return err
			}
			if _, err := w.Write(append(text, '\n')); err != nil {
				return err
			}
		}
		return nil
	})
	return p, err
}

// maxOpenSpills bounds the open files of one shard's writing.
const maxOpenSpills = 128

// spillFiles reads single rows of a segment's spill files.
type spillFiles struct {
	work    string
	segment int
	open    map[uint32]*os.File
}

func (s *spillFiles) read(m mark) ([]byte, error) {
	f, ok := s.open[m.unit]
	if !ok {
		if len(s.open) == maxOpenSpills {
			s.close()
		}
		var err error
		if f, err = os.Open(spillPath(s.work, s.segment, m.unit)); err != nil {
			return nil, fmt.Errorf("read a spill file: %w", err)
		}
		s.open[m.unit] = f
	}
	text := make([]byte, m.size, m.size+1)
	if _, err := f.ReadAt(text, int64(m.offset)); err != nil {
		return nil, fmt.Errorf("read a spill file: %w", err)
	}
	return text, nil
}

func (s *spillFiles) close() {
	for unit, f := range s.open {
		f.Close()
		delete(s.open, unit)
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
