package pipelines

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/pipelines/account"
	"github.com/sluiceml/sluice/pipelines/rows"
	"github.com/sluiceml/sluice/pipelines/spill"
	"github.com/sluiceml/sluice/pipelines/text/ngram"
	"github.com/sluiceml/sluice/pipelines/transform"
)

func init() {
	register.DoFn4x1[context.Context, string, func(*[]byte) bool, func(string, []byte), error](&resembleFn{})
}

// resembleFn decides, over all marks, which rows to keep: those that resemble no earlier kept row. It emits their places by unit.
type resembleFn struct{ segmentFn }

// ProcessElement passes all marks to a worker.
func (f *resembleFn) ProcessElement(ctx context.Context, group string, packed func(*[]byte) bool, emit func(string, []byte)) error {
	return f.group(ctx, "resemble/"+group, packed, emit, func(ctx context.Context, refs []spill.Reference) (outcome, error) {
		return f.resemble(ctx, group, refs)
	})
}

// resemble processes all marks. Memory: a mark for each row, and the bands of kept rows once more. This is the only part of cleaning that
// needs memory for each row, so it fails as soon as it knows that the memory is too small, with the numbers in the error.
func (f *resembleFn) resemble(ctx context.Context, group string, refs []spill.Reference) (stay outcome, err error) {
	d := f.entry().end.(*transform.NearDeduplicate)
	room := int64(cmp.Or(f.job.Memory, defaultMemory)) / 5 * 4
	if room -= spill.SizeOf(refs); room < 0 {
		return stay, f.noRoom(d, fmt.Sprintf("%d MiB of bands and places of all rows", spill.SizeOf(refs)>>20))
	}
	all, err := rankedMarks(f.job.WorkDir, refs)
	if err != nil {
		return stay, err
	}
	if room -= int64(len(all)) * bytesOfRank; room < 0 {
		return stay, f.noRoom(d, fmt.Sprintf("%d rows, with %d MiB of bands and places", len(all), spill.SizeOf(refs)>>20))
	}
	read := rereader{dedup: d, marks: all, spills: spill.NewFiles(f.job.WorkDir), sets: map[int][]uint64{}}
	defer read.spills.Close()
	of, err := ngram.Keep(len(all), all.bands(), func(i, j int) (bool, error) {
		if err := context.Cause(ctx); err != nil {
			return false, err
		}
		return read.alike(i, j)
	}, room)
	if full, ok := errors.AsType[*ngram.FullError](err); ok {
		return stay, f.noRoom(d, fmt.Sprintf("%d rows, of which more than %d remain", len(all), full.Rows))
	} else if err != nil {
		return stay, err
	}
	keep, dropped, groups := spill.Places{}, 0, map[int]bool{}
	for i, first := range of {
		if first == ngram.Kept {
			keep.Add(all[i].Mark())
			continue
		}
		dropped++
		groups[first] = true
	}
	packs, err := keep.PutAside(f.job.WorkDir, group)
	return outcome{packs, account.Ledger{{account.CountDropped, d.Name}: int64(dropped), {account.CountGroups, d.Name}: int64(len(groups))}}, err
}

// bytesOfRank is the memory that a row needs besides its mark: the mark's slice header, and the decision.
const bytesOfRank = 24 + 8

// noRoom returns the error for more rows than fit the memory.
func (f *resembleFn) noRoom(d *transform.NearDeduplicate, what string) error {
	return fault.Errorf(fault.User, "transform %s: there are %s; finding near duplicates among them needs more than the memory of %d MiB\n"+
		"help: increase %s, put an exact Deduplicate before it, or use fewer `bands`",
		d.Name, what, cmp.Or(f.job.Memory, defaultMemory)>>20, cmp.Or(f.job.MemoryKey, defaultMemoryKey))
}

// packedMarks holds marks in encoded form, which takes less memory than decoded ones.
type packedMarks []spill.Packed

// rankedMarks reads all marks and sorts them into the order of their rows.
func rankedMarks(work string, refs []spill.Reference) (packedMarks, error) {
	var all packedMarks
	err := spill.FetchMarks(work, refs, func(m spill.Packed) { all = append(all, m) })
	slices.SortFunc(all, spill.Packed.Compare)
	return all, err
}

// bands returns a function that returns the bands of row i. Its result is valid until the next call.
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

// maxReread bounds the number of shingles that a rereader holds (32 MB).
const maxReread = 4 << 20

// rereader compares rows by reading their texts from the spill files.
type rereader struct {
	dedup  *transform.NearDeduplicate
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
	return ngram.Jaccard(a, b) >= r.dedup.Threshold, err
}

// set returns the shingles of row i. Recently read rows are cached, up to maxReread shingles.
func (r *rereader) set(i int) ([]uint64, error) {
	if set, ok := r.sets[i]; ok {
		return set, nil
	}
	m := r.marks[i].Mark()
	text := make([]byte, m.Size)
	if err := r.spills.Read(m.ID, m.Offset, text); err != nil {
		return nil, err
	}
	whole, _, err := rows.Unpack(text)
	if err != nil {
		return nil, err
	}
	shingles, err := r.dedup.Shingles(whole)
	if err != nil {
		return nil, fmt.Errorf("a row of a spill file: %w", err)
	}
	set := ngram.Set(shingles)
	if r.held += len(set); r.held > maxReread {
		clear(r.sets)
		r.held = len(set)
	}
	r.sets[i] = set
	return set, nil
}
