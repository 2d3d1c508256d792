package pipelines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/sluiceml/sluice/pipelines/columns"
	"github.com/sluiceml/sluice/pipelines/format"
	"github.com/sluiceml/sluice/pipelines/rows"
	"github.com/sluiceml/sluice/pipelines/spill"
)

func init() {
	register.DoFn3x1[context.Context, []byte, func(string, []byte), error](&readFn{})
	register.DoFn4x1[context.Context, string, func(*[]byte) bool, func(string, []byte), error](&resumeFn{})
}

// segmentFn is what the DoFns that run a segment have in common.
type segmentFn struct {
	workersFn
	// Index is the segment's index in the plan.
	Index uint16

	plan *plan
}

// readFn runs a segment that begins at a source. Its elements are numbered sources.
type readFn struct{ segmentFn }

// resumeFn runs a segment that begins at a Deduplicate. Its elements are the places of the rows to keep, keyed by unit number.
type resumeFn struct{ segmentFn }

// unitResult is the result of one unit of work.
type unitResult struct {
	outcome                     // packs are references to marks in files; in the end, to all marks
	marks   map[groupKey][]byte // packed marks in memory
	// profiles are those of the Profile transforms, by name.
	profiles map[string]*columns.Profile
}

// groupKey identifies a group of marks at an end.
type groupKey struct {
	End   int
	Group string
}

// String returns the key that Beam groups by.
func (k groupKey) String() string { return endPrefix(k.End) + k.Group }

// Setup compiles the plan.
func (s *segmentFn) Setup(ctx context.Context) (err error) {
	if err := s.workersFn.Setup(ctx); err != nil {
		return err
	}
	s.job.Secrets = s.session.secrets
	s.plan, err = compilePlan(s.job)
	return s.session.failed(err)
}

// entry is the node that the segment begins at, and at is its index.
func (s *segmentFn) entry() *node { return &s.plan.nodes[s.at()] }
func (s *segmentFn) at() int      { return s.plan.segments[s.Index].entry }

// ProcessElement passes one source to a worker and emits the results that other workers have finished.
func (f *readFn) ProcessElement(ctx context.Context, element []byte, emit func(string, []byte)) error {
	var e numberedSource
	if err := json.Unmarshal(element, &e); err != nil {
		return err
	}
	f.start(ctx, e.Unit, func(u *task) error {
		defer f.session.sourcesRead.Add(1)
		for i, p := range e.Source.Pieces {
			if err := f.noteTypes(ctx, p.File); err != nil {
				return fmt.Errorf("read %s: %w", p.File.Name, err)
			}
			p.File.CountTo(&f.session.bytes)
			u.files.Of(p.File.Name) // a file without rows has an account, too
			err := u.cached(p, e.Source.Keys[i], func() error {
				return f.entry().source.Format.Read(ctx, p, func(r format.Record) error {
					if r.Row != nil {
						f.entry().source.Locate(r.Row, &p.File)
					}
					return u.read(p.File.Name, r)
				})
			})
			if err != nil {
				return fmt.Errorf("read %s: %w", p.File.Name, err)
			}
		}
		return nil
	})
	f.emit(ctx, emit)
	return nil
}

// numberedSource is a source with its number among all sources, which names its spill files.
type numberedSource struct {
	Unit   uint32 `json:"unit"`
	Source source `json:"source"`
}

// ProcessElement passes the kept rows of one unit to a worker and emits the results that other workers have finished.
func (f *resumeFn) ProcessElement(ctx context.Context, key string, packed func(*[]byte) bool, emit func(string, []byte)) error {
	unit, err := strconv.ParseUint(key, 10, 32)
	if err != nil {
		return err
	}
	keep, err := spill.ReadPlaces(f.job.WorkDir, packed)
	if err != nil {
		return err
	}
	f.start(ctx, uint32(unit), func(u *task) error {
		for _, segment := range slices.Sorted(maps.Keys(keep)) {
			id := spill.ID{Segment: segment, Unit: uint32(unit)}
			err := spill.Read(spill.Path(f.job.WorkDir, id), keep[segment], func(offset uint64, from rows.Origin, text []byte) error {
				return u.again(id, offset, from, text)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	f.emit(ctx, emit)
	return nil
}

// start runs work on a unit as soon as a worker is free.
func (s *segmentFn) start(ctx context.Context, unit uint32, work func(*task) error) {
	s.do(fmt.Sprintf("segment/%d/%d", s.Index, unit), func(context.Context) (outcome, error) {
		if s.session.over() {
			return outcome{}, nil
		}
		u, err := s.newUnit(ctx, unit)
		if err != nil {
			return outcome{}, err
		}
		if err := errors.Join(u.do(work), u.close()); err != nil {
			return outcome{}, err
		}
		if err := errors.Join(u.putMarksAside(), u.keepProfiles()); err != nil {
			return outcome{}, err
		}
		s.session.unitDone()
		return u.outcome, nil
	})
}
