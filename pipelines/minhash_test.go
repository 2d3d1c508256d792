package pipelines_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
)

const nearDedup = `
- {type: ReadFromJson, config: {path: INPUT/*}}
- {type: Deduplicate, name: near, config: {method: minhash, fields: [text], order_by: row.day, ngram: 2, bands: 40, rows: 2, threshold: 0.6}}
- {type: WriteToJson, config: {shards: 2}}
`

// keptIDs returns the ids of the rows of a dataset, in their order.
func keptIDs(t *testing.T, dir string) []int {
	t.Helper()
	var ids []int
	for _, row := range lines(t, filepath.Join(dir, "out", "all", "*")) {
		ids = append(ids, int(row["id"].(float64)))
	}
	slices.Sort(ids)
	return ids
}

func TestNearDuplicates(t *testing.T) {
	input := write(t, map[string]string{"in": `{"id": 1, "day": 5, "text": "the quick brown fox jumps over the lazy dog"}
{"id": 2, "day": 4, "text": "The quick brown fox jumps over the lazy dog, again."}
{"id": 3, "day": 3, "text": "pack my box with five dozen liquor jugs"}
{"id": 4, "day": 1, "text": "short"}
{"id": 5, "day": 2, "text": "Short!"}
{"id": 6, "day": 2, "text": "shorter"}
{"id": 7, "day": 1, "text": null}
{"id": 8, "day": 2, "text": ""}
{"id": 9, "day": 6, "text": "pack my box with five dozen liquor jugs and"}
{"id": 10, "day": 7, "text": "pack my box with five dozen liquor jugs or"}
{"id": 11, "day": 1, "text": 7}
{"id": 12, "day": 1}
{"id": 13, "day": 1, "text": "👍"}
{"id": 14, "day": 1, "text": "👎"}
{"id": 15, "day": 2, "text": "👍"}
{"id": 16, "day": 2, "text": null}
`})
	dir := t.TempDir()
	out := mustRun(t, job(dir, chain(t, input, nearDedup)))
	if diff := cmp.Diff([]int{2, 3, 4, 6, 7, 8, 13, 14}, keptIDs(t, dir)); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	want := spec.CleanOutput{
		Rows:       spec.Rows{Read: 16, Kept: 8, Dropped: 6, Rejected: 2},
		Rules:      map[string]spec.Rule{"near": {Dropped: 6}},
		Reasons:    map[string]int64{"near/not_text": 1, "near/missing_field": 1},
		Duplicates: spec.Duplicates{Dropped: 6, Groups: 5},
	}
	got := spec.CleanOutput{Rows: out.Rows, Rules: out.Rules, Reasons: out.Reasons, Duplicates: out.Duplicates}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
}

// nearRows makes rows of which many are others with some words replaced; days tell when they came.
func nearRows(n, days int) []string {
	r := rand.New(rand.NewPCG(5, 6))
	var texts [][]string
	rows := make([]string, n)
	for i := range rows {
		var words []string
		if i > 0 && r.IntN(2) == 0 {
			words = append(words, texts[r.IntN(i)]...)
			for range r.IntN(4) {
				words[r.IntN(len(words))] = fmt.Sprint("edit", r.IntN(50))
			}
		} else {
			for range r.IntN(25) {
				words = append(words, fmt.Sprint("w", r.IntN(300)))
			}
			words = append(words, "end")
		}
		texts = append(texts, words)
		rows[i] = fmt.Sprintf(`{"id": %d, "day": %d, "text": %q}`, i, i*days/n, strings.Join(words, " ")) + "\n"
	}
	return rows
}

// Which near duplicates stay depends on the rows alone, not on their order, the number of files or of workers.
func TestNearSameDigest(t *testing.T) {
	rows := nearRows(1000, 4)
	digest := func(parallelism, files int) string {
		rand.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		content := map[string]string{}
		for i, row := range rows {
			content[fmt.Sprint(i%files)] += row
		}
		dir := t.TempDir()
		j := job(dir, chain(t, write(t, content), nearDedup))
		j.Parallelism = parallelism
		out := mustRun(t, j)
		if out.Duplicates.Dropped < 100 || out.Rows.Kept < 100 {
			t.Fatalf("%+v are too few to tell", out.Rows)
		}
		return treeDigest(t, dir)
	}
	want := digest(1, 1)
	for _, c := range []struct{ parallelism, files int }{{4, 1}, {2, 30}} {
		if got := digest(c.parallelism, c.files); got != want {
			t.Errorf("parallelism %d, %d files: digest %s, want %s", c.parallelism, c.files, got, want)
		}
	}
}

// A dataset that grows by rows of later days keeps what it had.
func TestNearGrowth(t *testing.T) {
	const days = 3
	rows := nearRows(600, days)
	before := []int{}
	for day := 1; day <= days; day++ {
		dir := t.TempDir()
		mustRun(t, job(dir, chain(t, write(t, map[string]string{"in": strings.Join(rows[:len(rows)*day/days], "")}), nearDedup)))
		kept := keptIDs(t, dir)
		if diff := cmp.Diff(before, kept[:len(before)]); diff != "" {
			t.Errorf("day %d: what was kept before (-then +now):\n%s", day, diff)
		}
		before = kept
	}
}

func TestNearConfig(t *testing.T) {
	input := write(t, map[string]string{"in": `{"text": "a"}`})
	for _, config := range []string{
		`{method: minhash}`, `{method: minhash, fields: [text], ngram: 0}`, `{method: minhash, fields: [text], bands: 256, rows: 64}`,
		`{method: minhash, fields: [text], threshold: 0}`, `{method: minhsh, fields: [text]}`,
	} {
		_, err := run(t, job(t.TempDir(), chain(t, input, `
- {type: ReadFromJson, config: {path: INPUT/*}}
- {type: Deduplicate, config: `+config+`}
- {type: WriteToJson}
`)))
		if errorType(err) != "invalid" {
			t.Errorf("%s: got %v", config, err)
		}
	}
}

// TestNearMemory: what does not fit is refused with the figures, before the process grows beyond its memory.
func TestNearMemory(t *testing.T) {
	var rows strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&rows, `{"text": "%d"}`+"\n", i)
	}
	j := job(t.TempDir(), chain(t, write(t, map[string]string{"in": rows.String()}), `
- {type: ReadFromJson, config: {path: INPUT/*}}
- {type: Deduplicate, name: near, config: {method: minhash, fields: [text], bands: 200, rows: 1}}
- {type: WriteToJson}
`))
	j.Memory = 160 << 20
	_, err := run(t, j)
	if errorType(err) != fault.User || !strings.Contains(fmt.Sprint(err), "transform near: there are ") ||
		!strings.Contains(fmt.Sprint(err), "memory of 160 MiB") {
		t.Errorf("got %v", err)
	}
}
