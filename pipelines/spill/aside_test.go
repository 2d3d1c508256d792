package spill

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/pipelines/rows"
)

// drawMarks draws marks of few keys, in packs.
func drawMarks(rt *rapid.T) [][]Mark {
	drawn := rapid.Custom(func(rt *rapid.T) Mark {
		return Mark{
			Key:    rows.DigestOf([]byte{rapid.Byte().Draw(rt, "key")}),
			Tie:    rows.DigestOf([]byte{rapid.ByteRange(0, 3).Draw(rt, "tie")}),
			Order:  rapid.SliceOfN(rapid.ByteRange(0, 2), 0, 3).Draw(rt, "order"),
			Offset: uint64(rapid.Byte().Draw(rt, "offset")),
		}
	})
	return rapid.SliceOf(rapid.SliceOf(drawn)).Draw(rt, "packs")
}

// The mark that is held of a key is the first of them in their order, whatever the order they come in.
func TestBestMarks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		packs := drawMarks(rt)
		byKey := map[rows.Digest][]Packed{}
		best, total := BestMarks{}, 0
		for _, m := range slices.Concat(packs...) {
			p := Packed(m.Append(nil))
			byKey[m.Key] = append(byKey[m.Key], p)
			best.Add(p)
			total++
		}
		want := map[rows.Digest][]byte{}
		for key, list := range byKey {
			want[key] = slices.MinFunc(list, Packed.Compare)
		}
		got := map[rows.Digest][]byte{}
		best.Each(func(m Packed, several bool) {
			key := m.Mark().Key
			got[key] = m
			if several != (len(byKey[key]) > 1) {
				rt.Errorf("several is %t for %d marks", several, len(byKey[key]))
			}
		})
		if diff := cmp.Diff(want, got); diff != "" || best.Others != int64(total-len(want)) {
			rt.Error(best.Others, total, diff)
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
		var packs []Pack
		var want, got [][]byte
		for _, list := range drawMarks(rt) {
			var data []byte
			for _, m := range list {
				p := m.Append(nil)
				want = append(want, p)
				data = append(data, p...)
			}
			packs = append(packs, Pack{"0", data})
		}
		stored, err := PutAside(work, "marks/all", packs)
		if err != nil {
			rt.Fatal(err)
		}
		var refs []Reference
		for _, p := range stored {
			refs = append(refs, p.Data)
		}
		divided, err := divide(work, "marks/parts", refs, rapid.IntRange(1, 9).Draw(rt, "parts"))
		if err != nil {
			rt.Fatal(err)
		}
		var last []byte
		for _, part := range divided {
			before := last
			err := Fetch(work, part, func(batch []byte) error {
				return EachMark(batch, func(m Packed) {
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

// TestSorted: marks come in the order of key and tie, and never more of them at a time than there is room for, however many have one key.
func TestSorted(t *testing.T) {
	const marks, room = 3000, 40 * markHead
	work := t.TempDir()
	if err := os.Mkdir(filepath.Join(work, "marks"), 0o777); err != nil {
		t.Fatal(err)
	}
	for what, keyOf := range map[string]func(i int) (key, tie int){
		"many keys":        func(i int) (int, int) { return i / 2, i },
		"one key":          func(i int) (int, int) { return 0, i },
		"one key and more": func(i int) (int, int) { return max(0, i-marks/2), i },
	} {
		t.Run(what, func(t *testing.T) {
			var packs []Pack
			var want []string
			for i := range marks {
				key, tie := keyOf(i)
				m := Mark{Key: rows.DigestOf(fmt.Append(nil, "key", key)), Tie: rows.DigestOf(fmt.Append(nil, tie)), Offset: uint64(i)}
				packs = append(packs, Pack{"0", m.Append(nil)})
				want = append(want, fmt.Sprintf("%x%x", m.Key, m.Tie))
			}
			slices.Sort(want)
			stored, err := PutAside(work, "marks/all", packs)
			if err != nil {
				t.Fatal(err)
			}
			var refs []Reference
			for _, p := range stored {
				refs = append(refs, p.Data)
			}
			var got []string
			most := 0
			err = Sorted(work, "0/1", refs, room, func(list []Mark) error {
				most = max(most, len(list))
				for _, m := range list {
					got = append(got, fmt.Sprintf("%x%x", m.Key, m.Tie))
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if most*markHead > room {
				t.Errorf("%d marks of %d bytes were held at a time, and there is room for %d bytes", most, markHead, room)
			}
			left, err := os.ReadDir(filepath.Join(work, "marks"))
			if err != nil || len(left) != 1 {
				t.Errorf("there are %d files left, %v", len(left), err)
			}
		})
	}
}
