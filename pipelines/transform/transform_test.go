package transform

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// apply compiles a transform and applies it to a row.
func apply(t *testing.T, typ, config, rowText string) (rows.Row, error) {
	t.Helper()
	c, err := Compile(spec.Transform{Type: typ, Name: typ, Config: json.RawMessage(config)}, Deps{
		Params: map[string]any{"limit": int64(3)}, Secrets: map[string]string{"KEY": "secret"},
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := rows.Decode([]byte(rowText))
	if err != nil {
		t.Fatal(err)
	}
	if c.Count != nil {
		return r, c.Count(r, func(string, string) {})
	}
	return r, c.Apply(r)
}

func TestTransforms(t *testing.T) {
	tests := []struct{ name, typ, config, row, want string }{
		{"map", "MapToFields", `{"fields": {"a": "row.b * 2", "c": "params.limit"}}`, `{"b": 2, "x": 1}`, `{"a":4,"c":3}`},
		{"map appends", "MapToFields", `{"append": true, "drop": ["x"], "fields": {"b": "row.b + row.x"}}`, `{"b": 2, "x": 1}`, `{"b":3}`},
		{"map keeps types", "MapToFields", `{"fields": {"a": "[1, 2.0, null, {'k': 'v'}]"}}`, `{}`, `{"a":[1,2.0,null,{"k":"v"}]}`},
		{
			"map formulas", "MapToFields", `{"fields": {"a": "row.a.matches('^[=+@\\t\\r-]') ? '\\u0027' + row.a : row.a", "b": "row.b.matches('^[=+@\\t\\r-]') ? '\\u0027' + row.b : row.b"}}`,
			`{"a": "=1+1", "b": "1=1"}`, `{"a":"'=1+1","b":"1=1"}`,
		},
		{"html everywhere", "HtmlToText", `{"fields": ["a", "b"]}`, `{"a": "<b>x</b>", "b": null}`, `{"a":"x","b":null}`},
		{"html when", "HtmlToText", `{"fields": ["a"], "when": "row.html"}`, `{"a": "<b>x</b>", "html": false}`, `{"a":"<b>x</b>","html":false}`},
		{"normalize", "NormalizeText", `{"fields": ["a"]}`, `{"a": " e\u0301\u200b \u00a0x\r\n\r\n\r\n\u0007\ty "}`, "{\"a\":\"é x\\n\\ny\"}"},
		{"normalize nfkc", "NormalizeText", `{"fields": ["a"], "form": "NFKC", "case": "lower"}`, `{"a": "ＡＢ ﬁ ℂ"}`, `{"a":"ab fi c"}`},
		{"normalize lower Greek", "NormalizeText", `{"fields": ["a"], "case": "lower"}`, `{"a": "ΟΔΟΣ ΣΟΦΌΣ. ΣΑΣ Σ. İΣ"}`, `{"a":"οδος σοφός. σας σ. iς"}`},
		{"normalize keep", "NormalizeText", `{"fields": ["a"], "whitespace": "keep"}`, `{"a": "a  b\n\n\nc "}`, `{"a":"a  b\n\n\nc "}`},
		{"normalize mojibake", "NormalizeText", `{"fields": ["a"], "mojibake": "repair"}`, `{"a": "Lâ€™Ã©tÃ©"}`, `{"a":"L’été"}`},
		{"normalize keeps mojibake", "NormalizeText", `{"fields": ["a"]}`, `{"a": "Ã©"}`, `{"a":"Ã©"}`},
		{
			"quality edits", "QualityFilter", `{"field": "a", "rules": ["c4"], "c4": {"min_sentences": 1}}`, `{"a": "Home\nThis is a line that stays."}`,
			`{"a":"This is a line that stays."}`,
		},
		{"quality of null", "QualityFilter", `{"field": "a", "rules": ["gopher"]}`, `{"a": null}`, `{"a":null}`},
		{"mask", "MaskPII", `{"fields": ["a"]}`, `{"a": "<bob.b+x@mail.example.org>, a@b, @me, x@y.z."}`, `{"a":"<<EMAIL>>, a@b, @me, <EMAIL>."}`},
		{
			"mask kinds", "MaskPII", `{"fields": ["a", "b"], "kinds": ["ip"], "patterns": {"staff": "E-\\d+"}}`, `{"a": "E-12 at 10.0.0.1, a@b.c", "b": null}`,
			`{"a":"<STAFF> at <IP>, a@b.c","b":null}`,
		},
		{
			"mask hashes", "MaskPII", `{"fields": ["a"], "action": "hash", "key": "KEY"}`, `{"a": "Ann@x.org ann@X.org +49 30 123456"}`,
			`{"a":"<EMAIL:ffbf226ce0fddf53> <EMAIL:ffbf226ce0fddf53> <PHONE:dda2d0ac0e7954d3>"}`,
		},
		{"mask drops", "MaskPII", `{"fields": ["a"], "action": "drop"}`, `{"a": "nothing here"}`, `{"a":"nothing here"}`},
		{
			"mail", "DecodeMail", `{"field": "m"}`, `{"m": "Subject: =?utf-8?q?=C3=BC?=\n\nBody", "k": 1}`,
			`{"body":"Body","content_type":"text/plain","date":null,"from":"","k":1,"subject":"ü"}`,
		},
		{"schema", "ValidateWithSchema", `{"schema": {"required": ["a"], "properties": {"a": {"type": "integer"}}}}`, `{"a": 1}`, `{"a":1}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r, err := apply(t, test.typ, test.config, test.row)
			if err != nil {
				t.Fatal(err)
			}
			got, err := rows.Encode(r)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, string(got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A row that is rejected is in the dead letter as it came in.
func TestRejections(t *testing.T) {
	tests := []struct{ name, typ, config, row, reason string }{
		{"cost", "Filter", `{"keep": "row.a.replace('a', row.a).size() > 1"}`, `{"a": "` + strings.Repeat("a", 11_000) + `"}`, "cost"},
		{"missing field", "Filter", `{"keep": "row.a > 1"}`, `{"b": 1}`, "expression"},
		{"wrong type", "Filter", `{"keep": "row.a > 1"}`, `{"a": "x"}`, "expression"},
		{"filter not bool", "Filter", `{"keep": "row.a"}`, `{"a": 1}`, "expression"},
		{"map", "MapToFields", `{"fields": {"a": "row.a", "c": "row.b"}}`, `{"a": 1}`, "expression"},
		{"map divides by zero", "MapToFields", `{"fields": {"a": "row.a / 0"}}`, `{"a": 1}`, "expression"},
		{"no text", "NormalizeText", `{"fields": ["a", "b"]}`, `{"a": " x ", "b": 1}`, "not_text"},
		{"no field", "MaskPII", `{"fields": ["a", "b"]}`, `{"a": "x@y.z"}`, "missing_field"},
		{"quality of no text", "QualityFilter", `{"field": "a", "rules": ["gopher"]}`, `{"a": 1}`, "not_text"},
		{"no mail", "DecodeMail", `{"field": "m"}`, `{"m": "\n\nno header"}`, "no_header"},
		{"mail of a number", "DecodeMail", `{"field": "m"}`, `{"m": 1}`, "not_text"},
		{"schema", "ValidateWithSchema", `{"schema": {"required": ["a"]}}`, `{"b": 1}`, "schema"},
		{"schema integer", "ValidateWithSchema", `{"schema": {"properties": {"b": {"type": "integer"}}}}`, `{"b": 1.5}`, "schema"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r, err := apply(t, test.typ, test.config, test.row)
			var why *rows.Rejection
			if !errors.As(err, &why) || why.Reason != test.reason || why.Message == "" {
				t.Fatalf("got %v, want a rejection for %s", err, test.reason)
			}
			want, err := rows.Decode([]byte(test.row))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, r); diff != "" {
				t.Errorf("the row was changed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNormalizeIsStable(t *testing.T) {
	for _, config := range []string{
		`{"fields": ["a"]}`, `{"fields": ["a"], "form": "NFKC", "case": "lower"}`, `{"fields": ["a"], "whitespace": "keep"}`,
	} {
		c, err := Compile(spec.Transform{Type: "NormalizeText", Config: json.RawMessage(config)}, Deps{})
		if err != nil {
			t.Fatal(err)
		}
		f := c.Apply
		rapid.Check(t, func(rt *rapid.T) {
			r := rows.Row{"a": rapid.String().Draw(rt, "text")}
			if err := f(r); err != nil {
				rt.Fatal(err)
			}
			once := r["a"].(string)
			if err := f(r); err != nil {
				rt.Fatal(err)
			}
			if r["a"] != once {
				rt.Fatalf("%s: normalising %q again gives %q", config, once, r["a"])
			}
			if !norm.NFC.IsNormalString(once) {
				rt.Fatalf("%s: %q is not in normal form", config, once)
			}
		})
	}
}
