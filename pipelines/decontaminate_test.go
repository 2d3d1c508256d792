package pipelines_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
)

func TestDecontaminate(t *testing.T) {
	input := write(t, map[string]string{
		"in/a.jsonl": `{"text": "Before it says: \"What IS the capital of France today\", and goes on."}
{"text": "What is the capital of Spain today?"}
{"text": "yes"}
{"text": null}
`,
		"test/a.jsonl":  `{"question": "What is the capital of France today?", "answer": "Paris"}` + "\n",
		"test/b.jsonl":  `{"question": "Yes!", "answer": null}` + "\n",
		"empty/a.jsonl": `{"question": "?"}` + "\n",
		"broken.jsonl":  `{"question": "What`,
	})
	text := func(against string) string {
		return `
- {type: ReadFromJson, config: {path: INPUT/in/*}}
- {type: Deduplicate}
- {type: Decontaminate, name: seen, config: {fields: [text], ngram: 6, ` + against + `}}
- {type: WriteToJson}
`
	}
	out := mustRun(t, job(t.TempDir(), chain(t, input, text(`against: INPUT/test/*.jsonl, against_fields: [question, answer]`))))
	if diff := cmp.Diff(map[string]spec.Rule{"Deduplicate": {}, "seen": {Dropped: 2}}, out.Rules); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for against, want := range map[string]string{
		`against: INPUT/none/*, against_fields: [question]`:       "no file matches",
		`against: INPUT/empty/*, against_fields: [question]`:      "no words",
		`against: INPUT/broken.jsonl, against_fields: [question]`: "not_json",
		`against: INPUT/test/a.jsonl`:                             "no field text",
	} {
		if _, err := run(t, job(t.TempDir(), chain(t, input, text(against)))); errorType(err) != fault.User || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", against, err, want)
		}
	}
}
