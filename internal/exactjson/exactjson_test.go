package exactjson

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNumbers(t *testing.T) {
	var got any
	if err := Unmarshal([]byte(`{"ns": 1770000000000000001, "rate": 1.5, "all": [-7, 1e400, "8", null]}`), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"ns": int64(1770000000000000001), "rate": 1.5, "all": []any{int64(-7), json.Number("1e400"), "8", nil}}
	if diff := cmp.Diff(want, Numbers(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := Unmarshal([]byte(`{"ns": `), &got); err == nil {
		t.Error("half an object is read")
	}
}
