package exactjson

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNumbers(t *testing.T) {
	got, err := Value([]byte(` {"ns": 1770000000000000001, "rate": 1.5, "all": [-7, 1e400, "8", null]} `))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"ns": int64(1770000000000000001), "rate": 1.5, "all": []any{int64(-7), json.Number("1e400"), "8", nil}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, text := range []string{`{"ns": `, `8 9`, `[8]]`, ``} {
		if got, err := Value([]byte(text)); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

func TestRepeatedKey(t *testing.T) {
	for text, want := range map[string]string{
		`{"a": 1, "b": {"c": 1}, "a": 2}`: "a", ` {"\u0061": [1, 2], "a": null}`: "a", `{"": 1, "": 2}`: "",
	} {
		if key, twice := RepeatedKey([]byte(text)); !twice || key != want {
			t.Errorf("%s: %q, %v", text, key, twice)
		}
	}
	for _, text := range []string{`{}`, `{"a": {"b": 1}, "b": {"a": 1}}`, `["a", "a"]`, `{"a": `, ``} {
		if key, twice := RepeatedKey([]byte(text)); twice {
			t.Errorf("%s: %q", text, key)
		}
	}
}
