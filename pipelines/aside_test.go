package pipelines

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/pipelines/rows"
)

// drawMarks draws marks of few keys, in packs.
func drawMarks(rt *rapid.T) [][]mark {
	drawn := rapid.Custom(func(rt *rapid.T) mark {
		return mark{
			key:    rows.DigestOf([]byte{rapid.Byte().Draw(rt, "key")}),
			tie:    rows.DigestOf([]byte{rapid.ByteRange(0, 3).Draw(rt, "tie")}),
			order:  rapid.SliceOfN(rapid.ByteRange(0, 2), 0, 3).Draw(rt, "order"),
			offset: uint64(rapid.Byte().Draw(rt, "offset")),
		}
	})
	return rapid.SliceOf(rapid.SliceOf(drawn)).Draw(rt, "packs")
}

// The mark that is held of a key is the first of them in their order, whatever the order they come in.
func TestBestMarks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		packs := drawMarks(rt)
		byKey := map[rows.Digest][]packedMark{}
		best, total := bestMarks{}, 0
		for _, m := range slices.Concat(packs...) {
			p := packedMark(m.append(nil))
			byKey[m.key] = append(byKey[m.key], p)
			best.add(p)
			total++
		}
		want := map[rows.Digest][]byte{}
		for key, list := range byKey {
			want[key] = slices.MinFunc(list, packedMark.compare)
		}
		got := map[rows.Digest][]byte{}
		best.each(func(m packedMark, several bool) {
			key := m.mark().key
			got[key] = m
			if several != (len(byKey[key]) > 1) {
				rt.Errorf("several is %t for %d marks", several, len(byKey[key]))
			}
		})
		if diff := cmp.Diff(want, got); diff != "" || best.others != int64(total-len(want)) {
			rt.Error(best.others, total, diff)
		}
	})
}

// A group that is divided has the same marks, each part of it those of a range of keys.
func TestDivide(t *testing.T) {
	work := t.TempDir()
	if err := os.Mkdir(filepath.Join(work, "marks"), 0o777); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		var packs []pack
		var want, got [][]byte
		for _, list := range drawMarks(rt) {
			var data []byte
			for _, m := range list {
				p := m.append(nil)
				want = append(want, p)
				data = append(data, p...)
			}
			packs = append(packs, pack{"0", data})
		}
		stored, err := putAside(work, "marks/all", packs)
		if err != nil {
			rt.Fatal(err)
		}
		var refs []reference
		for _, p := range stored {
			refs = append(refs, p.data)
		}
		divided, err := divide(work, "marks/parts", refs, rapid.IntRange(1, 9).Draw(rt, "parts"))
		if err != nil {
			rt.Fatal(err)
		}
		var last []byte
		for _, part := range divided {
			before := last
			err := fetch(work, part, func(batch []byte) error {
				return marks(batch, func(m packedMark) {
					got = append(got, bytes.Clone(m))
					if bytes.Compare(m[:16], before) < 0 {
						rt.Errorf("the key %x is in a later part than %x", m[:16], before)
					}
					if bytes.Compare(m[:16], last) > 0 {
						last = bytes.Clone(m[:16])
					}
				})
			})
			if err != nil {
				rt.Fatal(err)
			}
		}
		slices.SortFunc(want, bytes.Compare)
		slices.SortFunc(got, bytes.Compare)
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Error(diff)
		}
	})
}
