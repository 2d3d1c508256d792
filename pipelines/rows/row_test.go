package rows

import (
	"errors"
	"strings"
	"testing"
)

func TestDecodeRow(t *testing.T) {
	tests := []struct{ text, reason string }{
		{`{"a": 1}`, ""},
		{` {"a": [1, {"b": 9007199254740993}]} `, ""},
		{`{"a": 1e400}`, "number_range"},
		{`{"a": 9223372036854775808}`, ""},
		{`{"a": 18446744073709551616}`, "number_range"},
		{`{"a": 1} {"b": 2}`, "not_json"},
		{`{"a": `, "not_json"},
		{strings.Repeat("[", 20_000), "not_json"},
		{`[]`, "not_object"},
		{`null`, "not_object"},
	}
	for _, test := range tests {
		_, err := Decode([]byte(test.text))
		var why *Rejection
		reason := ""
		if errors.As(err, &why) {
			reason = why.Reason
		}
		if reason != test.reason || (err != nil && why == nil) {
			t.Errorf("%.40s: got %v, want reason %q", test.text, err, test.reason)
		}
	}
	r, err := Decode([]byte(`{"a": 9007199254740993, "b": 1.0}`))
	if err != nil || r["a"] != int64(9007199254740993) || r["b"] != 1.0 {
		t.Errorf("got %v, %v: whole numbers must stay exact", r, err)
	}
}
