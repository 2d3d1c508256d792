package pipelines_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
)

// Each rule counts on its own, also those that drop nothing; two filters count apart by their names.
func TestQualityRules(t *testing.T) {
	input := write(t, map[string]string{"in.jsonl": `{"text": "one two"}
{"text": "one two {"}
{"text": "Lorem ipsum is here."}
{"text": "This one is a line that stays."}
`})
	got := mustRun(t, job(t.TempDir(), chain(t, input, `
- {type: ReadFromJson, config: {path: INPUT/*}}
- {type: QualityFilter, config: {field: text, rules: [c4], c4: {min_sentences: 1, min_words_per_line: 1, terminal_punctuation: false}}}
- {type: QualityFilter, name: strict, config: {field: text, rules: [c4], c4: {min_sentences: 1}}}
- {type: WriteToJson}
`)))
	want := spec.CleanOutput{
		Rows: spec.Rows{Read: 4, Kept: 1, Dropped: 3},
		Rules: map[string]spec.Rule{
			"c4/curly_bracket": {Dropped: 1}, "c4/lorem_ipsum": {Dropped: 1}, "c4/sentences": {},
			"strict/c4/curly_bracket": {}, "strict/c4/lorem_ipsum": {}, "strict/c4/sentences": {Dropped: 1},
		},
		Reasons: map[string]int64{}, Splits: map[string]int64{"all": 1}, Masked: map[string]int64{}, Profile: got.Profile, Profiles: map[string]spec.Profile{}, Schema: got.Schema,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Rows of different rules are never counted under one name.
func TestRulesOfOneName(t *testing.T) {
	input := write(t, map[string]string{"in.jsonl": "{}\n"})
	_, err := run(t, job(t.TempDir(), chain(t, input, `
- {type: ReadFromJson, config: {path: INPUT/*}}
- {type: Filter, name: c4/sentences, config: {keep: "true"}}
- {type: QualityFilter, config: {field: text, rules: [c4]}}
- {type: WriteToJson}
`)))
	if errorType(err) != fault.Invalid || !strings.Contains(err.Error(), `"c4/sentences"`) {
		t.Errorf("got %v", err)
	}
}
