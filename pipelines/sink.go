package pipelines

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"path/filepath"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/pipelines/account"
	"github.com/sluiceml/sluice/pipelines/columns"
	"github.com/sluiceml/sluice/pipelines/format"
	"github.com/sluiceml/sluice/pipelines/rows"
	"github.com/sluiceml/sluice/pipelines/shard"
	"github.com/sluiceml/sluice/pipelines/spill"
	"github.com/sluiceml/sluice/pipelines/transform"
)

func init() {
	register.DoFn4x1[context.Context, string, func(*[]byte) bool, func(string, []byte), error](&writeFn{})
}

// sink is a compiled WriteTo transform. Its output is divided into parts, and each part into shards.
type sink struct {
	// folder is the folder of the parts in the dataset; empty if they are in the dataset itself.
	folder string
	split  *transform.Splitter
	shards int
	format format.ShardFormat
	// names are the shards' paths, by part of the split.
	names map[string][]string
}

// maxShards bounds the number of shards of one part.
const maxShards = 10_000

func compileSink(t spec.Transform, split *transform.Splitter) (*sink, error) {
	format, c, err := format.CompileWriter(t)
	if err != nil {
		return nil, err
	}
	if c.Shards < 0 || c.Shards > maxShards {
		return nil, fmt.Errorf("shards: %d is not between 1 and %d", c.Shards, maxShards)
	}
	if c.Path != "" && !rows.PlainName(c.Path) {
		return nil, fmt.Errorf("path: %q is not a valid name for a folder; use letters, digits, - and _", c.Path)
	}
	s := &sink{folder: c.Path, split: split, shards: max(c.Shards, 1), format: format, names: map[string][]string{}}
	for _, part := range split.Names() {
		for i := range s.shards {
			s.names[part] = append(s.names[part], s.shard(s.part(part), i))
		}
	}
	return s, nil
}

// Take implements transform.End. A group holds the rows of one shard.
func (s *sink) Take(to []byte, r rows.Row) (text []byte, group string, m spill.Mark, err error) {
	if text, err = rows.Pack(to, r); err != nil {
		return nil, "", m, err
	}
	group, m, err = s.mark(r, text)
	return text, group, m, err
}

// looks reports whether mark needs the decoded row and not just its text.
func (s *sink) looks() bool { return s.format.Check != nil || s.split.Keyed() }

// mark returns the shard that a row belongs to, and its mark without the place. Its error may be a rejection.
func (s *sink) mark(r rows.Row, text []byte) (shard string, m spill.Mark, err error) {
	if s.format.Check != nil {
		if err := s.format.Check(r); err != nil {
			return "", m, err
		}
	}
	part, err := s.split.Part(r)
	if err != nil {
		return "", m, err
	}
	m.Key = rows.DigestOf(text)
	m.Tie = m.Key
	return s.names[part][m.Key.Bucket(s.shards)], m, nil
}

// parts returns the folders of the parts in the dataset.
func (s *sink) parts() []string {
	var names []string
	for _, part := range s.split.Names() {
		names = append(names, s.part(part))
	}
	return names
}

// part returns the folder of a part of the split.
func (s *sink) part(name string) string {
	switch {
	case s.folder == "":
		return name
	case s.split == &transform.AllRows:
		return s.folder
	}
	return s.folder + "/" + name
}

// shard returns a shard's path in the dataset.
func (s *sink) shard(part string, i int) string {
	return fmt.Sprintf("%s/part-%05d-of-%05d%s", part, i, s.shards, s.format.Ext)
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

// writeFn writes the rows of one shard as JSON lines, sorted by digest, and emits their profile. If the shard is to be converted, it also
// records the columns it saw.
type writeFn struct {
	workersFn
	columns transform.Columns
}

// Setup compiles the profile's columns.
func (f *writeFn) Setup(ctx context.Context) error {
	if err := f.workersFn.Setup(ctx); err != nil {
		return err
	}
	params, err := expr.RowParams(f.job.Spec.RowParams)
	if err != nil {
		return err
	}
	f.columns, err = transform.CompileColumns(f.job.Spec.Profile.Columns, params)
	return err
}

// ProcessElement passes the marks of one shard to a worker, and emits the results that other workers have finished. In the key, the shard's
// path follows the end.
func (f *writeFn) ProcessElement(ctx context.Context, key string, packed func(*[]byte) bool, emit func(string, []byte)) error {
	_, path, _ := strings.Cut(key, "/")
	return f.group(ctx, "write/"+path, packed, emit, func(ctx context.Context, refs []spill.Reference) (outcome, error) {
		written, err := f.shard(ctx, key, path, refs)
		if err != nil {
			err = fmt.Errorf("write %s: %w", path, err)
		}
		return written, err
	})
}

// shard writes a shard and returns its profile and counts. Memory: 40 bytes for each row of a part of the shard, and a few chunks of rows.
func (f *writeFn) shard(ctx context.Context, key, path string, refs []spill.Reference) (outcome, error) {
	p, err := f.write(ctx, key, path, refs)
	if err != nil {
		return outcome{}, err
	}
	text, err := json.Marshal(p)
	f.session.unitDone()
	counts := account.Ledger{{account.CountKept, filepath.Dir(path)}: p.Rows}
	return outcome{[]spill.Pack{{Data: text}}, counts}, err
}

func (f *writeFn) write(ctx context.Context, key, path string, refs []spill.Reference) (*columns.Profile, error) {
	part := filepath.Dir(path)
	done := f.session.writing.Shard(spill.CountMarks(refs))
	w := shard.Writer{
		Work: f.job.WorkDir, Workers: f.job.Parallelism, Columns: f.columns, Part: part, Profile: columns.NewProfile(part),
		Wrote: func(n int) {
			f.session.kept.Add(int64(n))
			done(int64(n))
		},
	}
	return w.Profile, w.Write(ctx, key, filepath.Join(f.job.WorkDir, "out", path), refs)
}
