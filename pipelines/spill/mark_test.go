package spill

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/pipelines/rows"
)

func TestMarksRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		list := rapid.SliceOf(rapid.Custom(func(rt *rapid.T) Mark {
			return Mark{
				Key:    rows.DigestOf([]byte(rapid.String().Draw(rt, "key"))),
				Tie:    rows.DigestOf([]byte(rapid.String().Draw(rt, "tie"))),
				Order:  rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(rt, "order"),
				ID:     ID{Segment: rapid.Uint16().Draw(rt, "segment"), Unit: rapid.Uint32().Draw(rt, "unit")},
				Offset: rapid.Uint64().Draw(rt, "offset"),
				Size:   rapid.Uint32().Draw(rt, "size"),
			}
		})).Draw(rt, "marks")
		var packed []byte
		for _, m := range list {
			packed = m.Append(packed)
		}
		got := []Mark{}
		if err := EachMark(packed, func(m Packed) { got = append(got, m.Mark()) }); err != nil {
			rt.Fatal(err)
		}
		if fmt.Sprint(got) != fmt.Sprint(list) {
			rt.Fatalf("got %v, want %v", got, list)
		}
		if len(packed) > 0 && EachMark(packed[:len(packed)-1], func(Packed) {}) == nil {
			rt.Fatal("no error for marks that are cut off")
		}
	})
}
