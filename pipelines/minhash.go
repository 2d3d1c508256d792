package pipelines

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/pipelines/account"
	"github.com/sluiceml/sluice/pipelines/rows"
	"github.com/sluiceml/sluice/pipelines/spill"
	"github.com/sluiceml/sluice/pipelines/text/minhash"
)

func init() {
	register.DoFn4x1[context.Context, string, func(*[]byte) bool, func(string, []byte), error](&resembleFn{})
}

// nearDeduper is a compiled Deduplicate by the method minhash.
type nearDeduper struct {
	ranking
	hasher    *minhash.Hasher
	threshold float64
}

// maxMinima bounds bands times rows, each of which is taken over all words of a text.
const maxMinima = 4096

func compileNearDedup(c dsl.Deduplicate, r ranking) (*nearDeduper, error) {
	switch {
	case len(r.fields) == 0:
		return nil, errors.New("fields: name at least one, by minhash")
	case c.Ngram < 1 || c.Bands < 1 || c.Rows < 1:
		return nil, errors.New("ngram, bands and rows: each must be at least 1")
	case c.Bands*c.Rows > maxMinima:
		return nil, fmt.Errorf("bands: %d times %d rows are more than %d", c.Bands, c.Rows, maxMinima)
	case c.Threshold <= 0 || c.Threshold > 1:
		return nil, fmt.Errorf("threshold: %s is not between 0%% and 100%%", c.Threshold)
	}
	return &nearDeduper{ranking: r, hasher: minhash.New(c.Ngram, c.Bands, c.Rows), threshold: float64(c.Threshold)}, nil
}

// take implements end. All rows are in one group: whether a row stays depends on those before it that stay.
func (d *nearDeduper) take(to []byte, r rows.Row) (text []byte, group string, m spill.Mark, err error) {
	if text, m, err = d.rank(to, r); err != nil {
		return nil, "", m, err
	}
	shingles, err := d.shingles(r)
	if err != nil {
		return nil, "", m, err
	}
	for _, band := range d.hasher.Bands(nil, shingles) {
		m.Bands = binary.BigEndian.AppendUint32(m.Bands, band)
	}
	return text, "0", m, nil
}

func (d *nearDeduper) shingles(r rows.Row) ([]uint64, error) {
	texts, err := rows.TextFields(r, d.fields)
	if err != nil {
		return nil, err
	}
	return d.hasher.Shingles(nil, texts...), nil
}

// resembleFn decides, over all marks, which rows stay: those that resemble no earlier one that stays. It emits their places by unit.
type resembleFn struct{ segmentFn }

// ProcessElement takes all packed marks. Memory: a mark for each row, and the bands of those that stay once more.
func (f *resembleFn) ProcessElement(ctx context.Context, group string, packed func(*[]byte) bool, emit func(string, []byte)) error {
	d := f.entry().end.(*nearDeduper)
	all, err := rankedMarks(f.job.WorkDir, packed)
	if err != nil {
		return f.session.failed(err)
	}
	read := rereader{dedup: d, marks: all, spills: spill.NewFiles(f.job.WorkDir), sets: map[int][]uint64{}}
	defer read.spills.Close()
	of, err := minhash.Keep(len(all), all.bands(), func(i, j int) (bool, error) {
		if err := context.Cause(ctx); err != nil {
			return false, err
		}
		return read.alike(i, j)
	})
	if err != nil {
		return f.session.failed(err)
	}
	keep, dropped, groups := spill.Places{}, 0, map[int]bool{}
	for i, first := range of {
		if first == minhash.Kept {
			keep.Add(all[i].Mark())
			continue
		}
		dropped++
		groups[first] = true
	}
	counts := account.Ledger{{account.CountDropped, d.name}: int64(dropped), {account.CountGroups, d.name}: int64(len(groups))}
	count(ctx, counts)
	kept, err := keep.PutAside(f.job.WorkDir, group)
	if err = errors.Join(err, counts.Keep(f.job.WorkDir, "resemble/"+group)); err != nil {
		return f.session.failed(err)
	}
	for _, p := range kept {
		emit(p.Key, p.Data)
	}
	return nil
}

// StartBundle does nothing: there are no workers.
func (f *resembleFn) StartBundle(context.Context, func(string, []byte)) {}

// FinishBundle does nothing.
func (f *resembleFn) FinishBundle(context.Context, func(string, []byte)) error { return nil }

// packedMarks are marks as they were emitted, which takes less memory than marks that are read.
type packedMarks []spill.Packed

// rankedMarks reads all marks and puts them into the order of their rows.
func rankedMarks(work string, packed func(*[]byte) bool) (packedMarks, error) {
	refs, err := spill.Collect(packed)
	if err != nil {
		return nil, err
	}
	var all packedMarks
	err = spill.Fetch(work, refs, func(b []byte) error {
		return spill.EachMark(b, func(m spill.Packed) { all = append(all, m) })
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, spill.Packed.Compare)
	return all, nil
}

// bands returns a function that returns the bands of row i, until it is called again.
func (p packedMarks) bands() func(i int) []uint32 {
	var list []uint32
	return func(i int) []uint32 {
		list = list[:0]
		for b := p[i].Mark().Bands; len(b) > 0; b = b[4:] {
			list = append(list, binary.BigEndian.Uint32(b))
		}
		return list
	}
}

// maxReread bounds the shingles that a rereader holds, to 32 MB.
const maxReread = 4 << 20

// rereader compares rows by their texts in the spill files.
type rereader struct {
	dedup  *nearDeduper
	marks  packedMarks
	spills *spill.Files
	sets   map[int][]uint64
	held   int // shingles in sets
}

func (r *rereader) alike(i, j int) (bool, error) {
	a, err := r.set(i)
	if err != nil {
		return false, err
	}
	b, err := r.set(j)
	return minhash.Jaccard(a, b) >= r.dedup.threshold, err
}

// set returns the shingles of row i. Those of the rows asked for before are held, as many as there is room for.
func (r *rereader) set(i int) ([]uint64, error) {
	if set, ok := r.sets[i]; ok {
		return set, nil
	}
	m := r.marks[i].Mark()
	text := make([]byte, m.Size)
	if err := r.spills.Read(spill.ID{Segment: m.Segment, Unit: m.Unit}, m.Offset, text); err != nil {
		return nil, err
	}
	whole, err := rows.Decode(text)
	if err != nil {
		return nil, fmt.Errorf("a row of a spill file: %w", err)
	}
	shingles, err := r.dedup.shingles(whole)
	if err != nil {
		return nil, fmt.Errorf("a row of a spill file: %w", err)
	}
	set := minhash.Set(shingles)
	if r.held += len(set); r.held > maxReread {
		clear(r.sets)
		r.held = len(set)
	}
	r.sets[i] = set
	return set, nil
}
