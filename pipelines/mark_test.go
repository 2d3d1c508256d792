package pipelines

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/pipelines/rows"
)

func TestMarksRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		list := rapid.SliceOf(rapid.Custom(func(rt *rapid.T) mark {
			return mark{
				key:    rows.DigestOf([]byte(rapid.String().Draw(rt, "key"))),
				tie:    rows.DigestOf([]byte(rapid.String().Draw(rt, "tie"))),
				order:  rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(rt, "order"),
				unit:   rapid.Uint32().Draw(rt, "unit"),
				offset: rapid.Uint64().Draw(rt, "offset"),
				size:   rapid.Uint32().Draw(rt, "size"),
			}
		})).Draw(rt, "marks")
		var packed []byte
		for _, m := range list {
			packed = m.append(packed)
		}
		got := []mark{}
		if err := marks(packed, func(m packedMark) { got = append(got, m.mark()) }); err != nil {
			rt.Fatal(err)
		}
		if fmt.Sprint(got) != fmt.Sprint(list) {
			rt.Fatalf("got %v, want %v", got, list)
		}
		if len(packed) > 0 && marks(packed[:len(packed)-1], func(packedMark) {}) == nil {
			rt.Fatal("no error for marks that are cut off")
		}
	})
}
