package pipelines_test

import (
	"bytes"
	"encoding/base64"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/pipelines"
)

// The key of the hashes reaches the transform after a grouping too, and is in no file the job leaves.
func TestMaskKey(t *testing.T) {
	const key = "a-key-that-nobody-knows"
	input := write(t, map[string]string{"in.jsonl": `{"text": "ann@example.org"}` + "\n" + `{"text": "bob@example.org, ANN@example.org"}` + "\n" + `{"text": 1}` + "\n"})
	dir := t.TempDir()
	j := job(dir, chain(t, input, `
- {type: ReadFromJson, config: {path: INPUT/*}}
- {type: Deduplicate}
- {type: MaskPII, config: {fields: [text], action: hash, key: KEY}}
- {type: WriteToJson}
`))
	if _, err := run(t, j); errorType(err) != fault.Invalid || !strings.Contains(err.Error(), `"KEY"`) {
		t.Errorf("without the key: got %v", err)
	}
	j.Secrets = map[string]string{"KEY": key}
	got := mustRun(t, j)
	if diff := cmp.Diff(map[string]int64{"email": 3, "phone": 0, "ip": 0, "card": 0, "iban": 0}, got.Masked); diff != "" {
		t.Errorf("masked (-want +got):\n%s", diff)
	}
	texts := []string{}
	for _, r := range lines(t, filepath.Join(dir, "out", "all", "*")) {
		texts = append(texts, r["text"].(string))
	}
	all := strings.Join(texts, " ")
	_, hash, _ := strings.Cut(texts[0][strings.LastIndex(texts[0], "<"):], ":")
	if len(texts) != 2 || strings.Contains(all, "example") || strings.Count(all, hash) != 2 || strings.Count(all, "<EMAIL:") != 3 {
		t.Errorf("got %q", texts)
	}
	noFileHolds(t, dir, key)
}

// The graph, which others may read on a cluster, has neither rows nor secrets, however it is encoded.
func TestGraphHoldsNoSecrets(t *testing.T) {
	const key, row, rule = "a-key-that-nobody-knows", "a-row-that-nobody-sees", "a_rule_that_all_may_see"
	input := write(t, map[string]string{"in.jsonl": `{"text": "` + row + `", "at": 1}` + "\n"})
	j := job(t.TempDir(), chain(t, input, `
- {type: ReadFromJson, config: {path: INPUT/*}}
- {type: Filter, name: `+rule+`, config: {keep: row.at > 0}}
- {type: Deduplicate, config: {fields: [text], order_by: row.at}}
- {type: Combine, config: {group_by: [text], combine: {most: {value: row.at, fn: max}}}}
- {type: MaskPII, config: {fields: [text], action: hash, key: KEY}}
- {type: WriteToJson}
`))
	j.WorkDir, j.Secrets, j.Programs = t.TempDir(), map[string]string{"KEY": key}, pipelines.Programs{Env: []string{"TOKEN=" + key}}
	j.Runner = pipelines.Runner{Flink: &spec.FlinkRunner{Master: "flink.example.com:8081"}}
	graph, err := pipelines.GraphOf(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{rule: true, key: false, row: false} {
		if got := holds(graph, text); got != want {
			t.Errorf("the graph holds %q: %v", text, got)
		}
	}
}

var base64Text = regexp.MustCompile(`[A-Za-z0-9+/]{16,}`)

// holds reports whether data have a text, as it is or in base64, also inside of other base64.
func holds(data []byte, text string) bool {
	if bytes.Contains(data, []byte(text)) {
		return true
	}
	for _, found := range base64Text.FindAll(data, -1) {
		for skip := range 4 { // what stands before it may look like a part of it
			whole := found[skip:]
			if len(whole)%4 == 1 {
				whole = whole[:len(whole)-1]
			}
			inside := make([]byte, len(whole))
			n, err := base64.RawStdEncoding.Decode(inside, whole)
			if err == nil && holds(inside[:n], text) {
				return true
			}
		}
	}
	return false
}

// noFileHolds reports files below a folder with a text in them.
func noFileHolds(t *testing.T, dir, text string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if strings.Contains(string(content), text) {
			t.Errorf("%s holds %q", path, text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestMaskDrops(t *testing.T) {
	input := write(t, map[string]string{"in.jsonl": `{"text": "ann@example.org"}` + "\n" + `{"text": "nobody"}` + "\n"})
	got := mustRun(t, job(t.TempDir(), chain(t, input, `
- {type: ReadFromJson, config: {path: INPUT/*}}
- {type: MaskPII, config: {fields: [text], kinds: [email], patterns: {word: nobodies}, action: drop}}
- {type: WriteToJson}
`)))
	want := spec.CleanOutput{
		Rows: spec.Rows{Read: 2, Kept: 1, Dropped: 1}, Rules: map[string]spec.Rule{"MaskPII": {Dropped: 1}},
		Reasons: map[string]int64{}, Splits: map[string]int64{"all": 1}, Masked: map[string]int64{"email": 1, "word": 0},
		Profile: got.Profile, Profiles: map[string]spec.Profile{}, Schema: got.Schema,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
