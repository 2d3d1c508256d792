package pipelines

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
)

func init() {
	register.DoFn4x1[context.Context, string, func(*[]byte) bool, func(string, []byte), error](&surviveFn{})
	register.Iter1[[]byte]()
	register.Emitter2[string, []byte]()
}

// surviveFn decides, in each group of marks, which row of each key stays. It emits the places of those rows by unit.
type surviveFn struct {
	// Rule is the name of the Deduplicate, Work the work folder, and Workers how many groups are worked on at a time.
	Rule, Work string
	Workers    int

	session *session
	workers workers[survivors]
}

// survivors are what stays of a group.
type survivors struct {
	kept   []pack // references to places
	counts ledger
}

// Setup finds the session.
func (f *surviveFn) Setup(context.Context) { f.session = sessionOf(f.Work) }

// StartBundle starts the workers.
func (f *surviveFn) StartBundle(ctx context.Context, _ func(string, []byte)) {
	f.workers.start(ctx, f.Workers)
}

// ProcessElement hands the marks of one group to a worker, and emits what others have finished.
func (f *surviveFn) ProcessElement(ctx context.Context, group string, packed func(*[]byte) bool, emit func(string, []byte)) error {
	refs, err := collect(packed)
	if err != nil {
		return f.session.failed(err)
	}
	f.workers.do(func(ctx context.Context) (survivors, error) {
		stay, err := f.survive(ctx, group, refs)
		return stay, f.session.failed(err)
	})
	f.emit(ctx, emit)
	return nil
}

// FinishBundle waits for the workers and emits the rest.
func (f *surviveFn) FinishBundle(ctx context.Context, emit func(string, []byte)) error {
	err := f.workers.wait()
	f.emit(ctx, emit)
	return err
}

// emit emits what is done.
func (f *surviveFn) emit(ctx context.Context, emit func(string, []byte)) {
	for _, stay := range f.workers.take() {
		for _, p := range stay.kept {
			emit(p.key, p.data)
		}
		count(ctx, stay.counts)
	}
}

// survive decides for one group. Memory: the mark of each key that is held of a part of it.
func (f *surviveFn) survive(ctx context.Context, group string, refs []reference) (stay survivors, err error) {
	done, err := f.session.turn(ctx)
	if err != nil {
		return stay, err
	}
	defer done()
	keep, counts := placed{}, ledger{}
	err = parts(f.Work, group, refs, func(refs []reference) error {
		best := bestMarks{}
		err := fetch(f.Work, refs, func(batch []byte) error { return marks(batch, best.add) })
		best.each(func(m packedMark, several bool) {
			keep.add(m.mark())
			if several {
				counts[[2]string{countGroups, f.Rule}]++
			}
		})
		counts[[2]string{countDropped, f.Rule}] += best.others
		return err
	})
	if err == nil {
		stay.kept, err = keep.putAside(f.Work, group)
	}
	stay.counts = counts
	return stay, errors.Join(err, counts.keep(f.Work, "survive/"+group))
}

// bestMarks holds the mark of each key that comes first. It is a hash table whose hashes are the keys: a map of marks takes three times
// the memory.
type bestMarks struct {
	packed []byte
	// slots hold twice 1 + the place in packed, and one more where several marks had the key; 0 is free. Their number is a power of two.
	slots  []uint64
	keys   int
	others int64 // marks that another one with their key came before
}

// add takes in a mark.
func (b *bestMarks) add(m packedMark) {
	if 2*b.keys >= len(b.slots) {
		b.grow()
	}
	slot := b.find(m[:16])
	if *slot == 0 {
		b.keys++
		*slot = b.append(m)
		return
	}
	b.others++
	*slot |= 1
	if held := b.at(*slot); m.compare(held) < 0 {
		if len(held) == len(m) {
			copy(held, m)
		} else {
			*slot = b.append(m) | 1
		}
	}
}

func (b *bestMarks) append(m packedMark) (slot uint64) {
	b.packed = append(b.packed, m...)
	return 2 * uint64(1+len(b.packed)-len(m))
}

func (b *bestMarks) at(slot uint64) packedMark {
	m, _, _ := cutMark(b.packed[slot/2-1:]) // it was one when it was added
	return m
}

// find returns the slot that has a key, or is free for it.
func (b *bestMarks) find(key []byte) *uint64 {
	mask := uint64(len(b.slots) - 1)
	for i := binary.BigEndian.Uint64(key) & mask; ; i = (i + 1) & mask {
		if s := &b.slots[i]; *s == 0 || bytes.Equal(b.packed[*s/2-1:][:16], key) {
			return s
		}
	}
}

func (b *bestMarks) grow() {
	before := b.slots
	b.slots = make([]uint64, max(2*len(before), 1024))
	for _, s := range before {
		if s != 0 {
			*b.find(b.packed[s/2-1:][:16]) = s
		}
	}
}

// each calls yield for the marks that are held, and says whether there were several with their key.
func (b *bestMarks) each(yield func(m packedMark, several bool)) {
	for _, s := range b.slots {
		if s != 0 {
			yield(b.at(s), s&1 == 1)
		}
	}
}
