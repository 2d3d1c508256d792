package kit

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The message alone seldom says which value is wrong.
func TestRejectedShowsTheRow(t *testing.T) {
	const deadLetter = `{"element": {"id": 7, "km": "about 3"}, "transform": "Types", "reason": "type", "message": "field km: type conversion error", "source": "parcels.csv"}
{"element": {"id": 8, "km": "?"}, "transform": "Types", "reason": "type", "message": "field km: type conversion error", "source": "parcels.csv"}
{"element": "none\nat all", "transform": "Read", "reason": "not_json", "message": "no value", "source": "a.jsonl"}
{"element": null, "transform": "Read", "reason": "damaged", "message": "unexpected end", "source": "b.jsonl"}
`
	why, err := ReadRejected(strings.NewReader(deadLetter), map[string]int64{"Types/type": 2, "Read/not_json": 1, "Read/damaged": 1}, "")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"Types/type":    `parcels.csv: field km: type conversion error; row: {"id": 7, "km": "about 3"}`,
		"Read/not_json": "a.jsonl: no value; row: none at all",
		"Read/damaged":  "b.jsonl: unexpected end",
	}
	if diff := cmp.Diff(want, why.First); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
