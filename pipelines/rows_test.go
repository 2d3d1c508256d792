package pipelines_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
)

// Rows made of one count as read, so that the account adds up, also through transforms that follow and two Explodes in a row.
func TestExplode(t *testing.T) {
	input := write(t, map[string]string{"in.jsonl": `{"id": 1, "a": [1, 2, 3], "b": ["x"]}
{"id": 2, "a": [], "b": []}
{"id": 3, "a": null, "b": []}
{"id": 4, "a": [4], "b": [["y", "z"]]}
`})
	tests := []struct {
		config string
		want   []string
		rows   spec.Rows
	}{
		{"{fields: [a, b]}", []string{`1 1 x`, `1 2 <nil>`, `1 3 <nil>`, `4 4 [y z]`}, spec.Rows{Read: 6, Kept: 4, Dropped: 1, Rejected: 1, Exploded: 2}},
		{"{fields: [b, a], cross_product: true}", []string{`1 1 x`, `1 2 x`, `1 3 x`, `4 4 [y z]`}, spec.Rows{Read: 6, Kept: 4, Dropped: 1, Rejected: 1, Exploded: 2}},
		{"{fields: [b]}", []string{`1 [1 2 3] x`, `4 [4] [y z]`}, spec.Rows{Read: 4, Kept: 2, Dropped: 2}},
	}
	for _, test := range tests {
		dir := t.TempDir()
		out := mustRun(t, job(dir, chain(t, input, `
- {type: ReadFromJson, config: {path: INPUT/*}}
- {type: Explode, name: items, config: `+test.config+`}
- {type: Deduplicate}
- {type: WriteToJson}
`)))
		if diff := cmp.Diff(test.rows, out.Rows); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.config, diff)
		}
		if got := out.Rules["items"].Dropped; got != test.rows.Dropped {
			t.Errorf("%s: the rule items dropped %d", test.config, got)
		}
		got := map[string]bool{}
		for _, r := range lines(t, filepath.Join(dir, "out", "all", "*")) {
			got[fmt.Sprintf("%v %v %v", r["id"], r["a"], r["b"])] = true
		}
		want := map[string]bool{}
		for _, w := range test.want {
			want[w] = true
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: rows (-want +got):\n%s", test.config, diff)
		}
	}
}

// A row that would become too many is rejected before the first of them.
func TestExplodeTooMany(t *testing.T) {
	list := strings.Repeat("1,", 1000) + "1"
	input := write(t, map[string]string{"in.jsonl": fmt.Sprintf(`{"a": [%s], "b": [%s]}`, list, list)})
	out := mustRun(t, job(t.TempDir(), chain(t, input, `
- {type: ReadFromJson, config: {path: INPUT/*}}
- {type: Explode, config: {fields: [a, b], cross_product: true}}
- {type: WriteToJson}
`)))
	if diff := cmp.Diff(map[string]int64{"Explode/too_many": 1}, out.Reasons); diff != "" || out.Rows.Read != 1 {
		t.Errorf("got %+v, reasons (-want +got):\n%s", out.Rows, diff)
	}
}

// A sample is about its share of the keys, all rows of a key or none, and part of a larger sample.
func TestSample(t *testing.T) {
	var text strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&text, `{"id": %d, "key": %d}`+"\n", i, i/2)
	}
	input := write(t, map[string]string{"in.jsonl": text.String()})
	sample := func(fraction string) map[any]int {
		dir := t.TempDir()
		out := mustRun(t, job(dir, chain(t, input, `
- {type: ReadFromJson, config: {path: INPUT/*}}
- {type: Sample, config: {fraction: `+fraction+`, key: row.key}}
- {type: WriteToJson}
`)))
		if out.Rules["Sample"].Dropped != 2000-out.Rows.Kept {
			t.Errorf("the rule dropped %d of %d", out.Rules["Sample"].Dropped, 2000-out.Rows.Kept)
		}
		keys := map[any]int{}
		for _, r := range lines(t, filepath.Join(dir, "out", "all", "*")) {
			keys[r["key"]]++
		}
		return keys
	}
	small, large := sample("0.1"), sample("0.3")
	if len(small) < 60 || len(small) > 140 || len(large) < 230 || len(large) > 370 {
		t.Errorf("kept %d and %d of 1000 keys", len(small), len(large))
	}
	for key, n := range small {
		if n != 2 || large[key] != 2 {
			t.Errorf("of key %v the small sample has %d rows and the large one %d", key, n, large[key])
		}
	}
}

func TestAssertEqual(t *testing.T) {
	input := write(t, map[string]string{"in.jsonl": `{"a": 1, "b": "x"}` + "\n" + `{"a": 2.5}` + "\n" + `{"a": 2.5}` + "\n"})
	for elements, want := range map[string]string{
		`[{a: 2.5}, {b: x, a: 1}, {a: 2.5}]`:         "",
		`[{a: 2.5}, {b: x, a: 1}]`:                   `the row {"a":2.5} occurs 2 times, not 1`,
		`[{a: 2.5}, {b: x, a: 1}, {a: 2.5}, {c: 3}]`: `the row {"c":3} occurs 0 times, not 1`,
		`[{a: 2.5}, {a: 2.5}]`:                       `the row {"a":1,"b":"x"} is not among the elements`,
		`[7]`:                                        "elements: number 1",
	} {
		_, err := run(t, job(t.TempDir(), chain(t, input, `
- {type: ReadFromJson, config: {path: INPUT/*}}
- {type: AssertEqual, name: same, config: {elements: `+elements+`}}
- {type: WriteToJson}
`)))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "same")) {
			t.Errorf("%s: got %v, want %q", elements, err, want)
		}
	}
}

// A transform may reject its share and no row more, whatever number of workers there is; a hopeless job ends early.
func TestThreshold(t *testing.T) {
	rows := func(good, bad int) string {
		return strings.Repeat(`{"a": 1}`+"\n", good) + strings.Repeat(`{"b": 1}`+"\n", bad)
	}
	tests := []struct {
		text string
		ok   bool
	}{
		{rows(9, 1), true},
		{rows(9, 2), false},
		{rows(0, 0) + "{}", false},
		{"no row at all", true}, // rejected by another transform
		{rows(1800, 200), true},
		{rows(0, 60_000), false},
	}
	for _, test := range tests {
		for _, workers := range []int{1, 4} {
			files := map[string]string{}
			for i := range 3 {
				files[fmt.Sprintf("%d.jsonl", i)] = test.text
			}
			j := job(t.TempDir(), chain(t, write(t, files), `
- {type: ReadFromJson, config: {path: INPUT/*}}
- {type: Filter, name: good, config: {keep: row.a > 0, error_handling: {threshold: 0.1}}}
- {type: WriteToJson}
`))
			j.Parallelism = workers
			_, err := run(t, j)
			if test.ok && err != nil || !test.ok && (errorType(err) != fault.User || !strings.Contains(err.Error(), "good rejected")) {
				t.Errorf("%.20q with %d workers: got %v", test.text, workers, err)
			}
			if len(test.text) > 500_000 && strings.Contains(err.Error(), "of 180,000 rows") {
				t.Errorf("the job did not end early: %v", err)
			}
		}
	}
}

// A row that has become too long when it reaches a Deduplicate counts for the threshold of that.
func TestThresholdCountsLongRows(t *testing.T) {
	long := `{"a": "` + strings.Repeat("x", 9<<20) + `"}` + "\n"
	for threshold, ok := range map[string]bool{"0.1": false, "0.5": true} {
		j := job(t.TempDir(), chain(t, write(t, map[string]string{"in.jsonl": `{"a": "y"}` + "\n" + long}), `
- {type: ReadFromJson, config: {path: INPUT/*}}
- {type: MapToFields, config: {fields: {a: row.a + row.a}}}
- {type: Deduplicate, name: same, config: {error_handling: {threshold: `+threshold+`}}}
- {type: WriteToJson}
`))
		_, err := run(t, j)
		if ok && err != nil || !ok && (errorType(err) != fault.User || !strings.Contains(err.Error(), "transform same rejected 1 of 2 rows")) {
			t.Errorf("threshold %s: got %v", threshold, err)
		}
	}
}
