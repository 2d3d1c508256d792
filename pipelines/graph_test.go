package pipelines_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
)

// graphSpec reads the block of a clean step; INPUT stands for the input's folder.
func graphSpec(t testing.TB, input, text string) (spec spec.Clean) {
	t.Helper()
	var block map[string]any
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(text, "INPUT", input)), &block); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(block)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &spec); err != nil {
		t.Fatal(err)
	}
	return spec
}

// parts are the rows of a dataset by part, each as JSON, sorted.
func parts(t testing.TB, dir string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, pattern := range []string{"*", "*/*"} {
		folders, err := filepath.Glob(filepath.Join(dir, "out", pattern, "*.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range folders {
			name, err := filepath.Rel(filepath.Join(dir, "out"), filepath.Dir(file))
			if err != nil {
				t.Fatal(err)
			}
			found[name] = append(found[name], []string{}...)
			for _, row := range lines(t, file) {
				text, err := json.Marshal(row)
				if err != nil {
					t.Fatal(err)
				}
				found[name] = append(found[name], string(text))
			}
			slices.Sort(found[name])
		}
	}
	return found
}

func TestGraph(t *testing.T) {
	input := write(t, map[string]string{
		"a.jsonl":      `{"n": 1, "lang": "en"}` + "\n" + `{"n": 2, "lang": "de"}` + "\n" + `{"n": 3, "lang": "fr"}` + "\n" + `{"n": "x", "lang": "en"}` + "\n",
		"b.csv":        "n,lang\n1,en\n5,de\n",
		"broken.jsonl": `{"n": 1}` + "\n" + `{"n":1}` + "\n{\n{}\n",
	})
	tests := []struct {
		name, spec string
		rows       spec.Rows
		want       map[string][]string
	}{
		{
			"rejected rows have a sink beside the chain", `
transforms:
- {type: ReadFromJson, config: {path: INPUT/a.jsonl}}
- {type: MapToFields, name: double, config: {fields: {n: row.n * 2}, error_handling: {output: bad}}}
- {type: WriteToJson, config: {path: good}}
extra_transforms:
- {type: MapToFields, name: why, input: [double.bad], config: {fields: {n: row.element.n, reason: row.reason, from: row.source}}}
- {type: WriteToJson, name: bad, input: [why], config: {path: bad}}
`,
			spec.Rows{Read: 4, Kept: 4},
			map[string][]string{"good": {`{"n":2}`, `{"n":4}`, `{"n":6}`}, "bad": {`{"from":"a.jsonl","n":"x","reason":"expression"}`}},
		},
		{
			"what a source and a cut reject", `
transforms:
- {type: ReadFromJson, name: in, config: {path: INPUT/broken.jsonl, error_handling: {output: bad, threshold: 0.5}}}
- {type: Deduplicate, config: {fields: [n], error_handling: {output: bad}}}
- {type: WriteToJson}
extra_transforms:
- {type: MapToFields, name: why, input: [in.bad, Deduplicate.bad], config: {fields: {was: row.element, reason: row.reason, at: row.offset}}}
- {type: WriteToJson, name: bad, input: [why], config: {path: bad}}
`,
			spec.Rows{Read: 4, Kept: 3, Dropped: 1},
			map[string][]string{"all": {`{"n":1}`}, "bad": {`{"at":17,"reason":"not_json","was":"{"}`, `{"at":19,"reason":"missing_field","was":{}}`}},
		},
		{
			"the outputs of a partition", `
transforms:
- {type: ReadFromJson, config: {path: INPUT/a.jsonl}}
- {type: Partition, config: {by: row.lang, outputs: [en, de]}}
extra_transforms:
- {type: WriteToJson, name: en, input: [Partition.en], config: {path: en}}
- {type: WriteToJson, name: de, input: [Partition.de], config: {path: de, shards: 2}}
`,
			spec.Rows{Read: 4, Kept: 3, Rejected: 1},
			map[string][]string{"en": {`{"lang":"en","n":"x"}`, `{"lang":"en","n":1}`}, "de": {`{"lang":"de","n":2}`}},
		},
		{
			"an output for what is unknown, by a bool", `
transforms:
- {type: ReadFromJson, config: {path: INPUT/a.jsonl}}
- {type: Partition, config: {by: row.lang == "en", outputs: ["true"], unknown_output: rest}}
extra_transforms:
- {type: WriteToJson, input: [Partition.true, Partition.rest]}
`,
			spec.Rows{Read: 4, Kept: 4},
			map[string][]string{"all": {`{"lang":"de","n":2}`, `{"lang":"en","n":"x"}`, `{"lang":"en","n":1}`, `{"lang":"fr","n":3}`}},
		},
		{
			"an output for what is unknown, by null", `
transforms:
- {type: ReadFromJson, config: {path: INPUT/a.jsonl}}
- {type: Partition, config: {by: 'row.lang == "en" ? row.lang : null', outputs: [en], unknown_output: rest}}
extra_transforms:
- {type: WriteToJson, name: en, input: [Partition.en], config: {path: en}}
- {type: WriteToJson, name: rest, input: [Partition.rest], config: {path: rest}}
`,
			spec.Rows{Read: 4, Kept: 4},
			map[string][]string{"en": {`{"lang":"en","n":"x"}`, `{"lang":"en","n":1}`}, "rest": {`{"lang":"de","n":2}`, `{"lang":"fr","n":3}`}},
		},
		{
			"several sources, and several takers of one row", `
type: composite
transforms:
- {type: Flatten, input: [ReadFromJson, ReadFromCsv]}
- {type: Filter, input: [Flatten], config: {keep: row.lang == "en"}}
- {type: MapToFields, name: lang, input: [Filter], config: {fields: {lang: row.lang}}}
- {type: Deduplicate, name: langs, input: [lang], config: {}}
- {type: WriteToJson, name: langs_out, input: [langs], config: {path: langs}}
- {type: Deduplicate, name: same, input: [Filter], config: {fields: [lang, n]}}
- {type: WriteToJson, name: rows, input: [same]}
- {type: ReadFromJson, config: {path: INPUT/a.jsonl}}
- {type: ReadFromCsv, config: {path: INPUT/b.csv}}
`,
			spec.Rows{Read: 9, Kept: 4, Dropped: 5, Copied: 3},
			map[string][]string{"langs": {`{"lang":"en"}`}, "all": {`{"lang":"en","n":"1"}`, `{"lang":"en","n":"x"}`, `{"lang":"en","n":1}`}},
		},
		{
			"groups of transforms", `
source: {type: ReadFromJson, config: {path: INPUT/a.jsonl}}
transforms:
- type: chain
  name: tidy
  transforms:
  - {type: MapToFields, name: double, config: {fields: {n: row.n * 2, lang: row.lang}, error_handling: {output: bad}}}
  - type: composite
    name: some
    transforms:
    - {type: Filter, name: en, input: [input], config: {keep: row.lang == "en"}}
    - {type: Filter, name: de, input: [input], config: {keep: row.lang == "de"}}
    - {type: chain, name: marked, input: [de], input_names: [those], transforms: [{type: MapToFields, config: {fields: {n: "-row.n"}, append: true}}]}
    - {type: Flatten, input: [en, marked]}
    output: {"": Flatten}
  extra_transforms: [{type: WriteToJson, input: [double.bad], config: {path: bad}}]
sink: {type: WriteToJson}
`,
			spec.Rows{Read: 7, Kept: 3, Dropped: 4, Copied: 3},
			map[string][]string{
				"all": {`{"lang":"de","n":-4}`, `{"lang":"en","n":2}`},
				"bad": {`{"element":{"lang":"en","n":"x"},"message":"field n: no such overload","offset":69,"reason":"expression","source":"a.jsonl"}`},
			},
		},
		{
			"splits of several sinks", `
type: composite
transforms:
- {type: ReadFromJson, config: {path: INPUT/a.jsonl}}
- {type: Split, input: [ReadFromJson], config: {key: row.n, parts: {a: 1}}}
- {type: WriteToJson, name: one, input: [Split], config: {path: one}}
- {type: WriteToJson, name: two, input: [Split]}
- {type: WriteToJson, name: all, input: [ReadFromJson]}
`,
			spec.Rows{Read: 12, Kept: 12, Copied: 8},
			map[string][]string{
				"one/a": {`{"lang":"de","n":2}`, `{"lang":"en","n":"x"}`, `{"lang":"en","n":1}`, `{"lang":"fr","n":3}`},
				"a":     {`{"lang":"de","n":2}`, `{"lang":"en","n":"x"}`, `{"lang":"en","n":1}`, `{"lang":"fr","n":3}`},
				"all":   {`{"lang":"de","n":2}`, `{"lang":"en","n":"x"}`, `{"lang":"en","n":1}`, `{"lang":"fr","n":3}`},
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			out := mustRun(t, job(dir, graphSpec(t, input, test.spec)))
			if diff := cmp.Diff(test.rows, out.Rows); diff != "" {
				t.Errorf("account (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.want, parts(t, dir)); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
			counted := map[string]int64{}
			for part, rows := range test.want {
				counted[part] = int64(len(rows))
			}
			if diff := cmp.Diff(counted, out.Splits); diff != "" {
				t.Errorf("splits (-want +got):\n%s", diff)
			}
		})
	}
}

// Rows that go to an output for rejected ones count for the threshold all the same, and what is wrong with a graph is said.
func TestGraphFails(t *testing.T) {
	input := write(t, map[string]string{"in": `{"n": 1}` + "\n" + `{"n": "x"}` + "\n"})
	tests := []struct{ name, spec, typ, want string }{
		{"threshold", `
transforms:
- {type: ReadFromJson, config: {path: INPUT/in}}
- {type: Filter, config: {keep: row.n > 0, error_handling: {output: bad, threshold: 0.2}}}
- {type: WriteToJson}
extra_transforms:
- {type: WriteToJson, name: bad, input: [Filter.bad], config: {path: bad}}
`, fault.User, "rejected 1 of 2 rows"},
		{"unused output", `
transforms:
- {type: ReadFromJson, config: {path: INPUT/in}}
- {type: Filter, config: {keep: row.n > 0, error_handling: {output: bad}}}
- {type: WriteToJson}
`, fault.Invalid, "the rows of `Filter.bad` are not used"},
		{"one folder", `
transforms:
- {type: ReadFromJson, config: {path: INPUT/in}}
- {type: WriteToJson}
extra_transforms:
- {type: WriteToJson, name: again, input: [ReadFromJson]}
`, fault.Invalid, "both write the part `all`"},
		{"a folder elsewhere", `
transforms:
- {type: ReadFromJson, config: {path: INPUT/in}}
- {type: WriteToJson, config: {path: ../x}}
`, fault.Invalid, `"../x"`},
		{"no transforms", "{}", fault.Invalid, "no transforms"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			_, err := run(t, job(dir, graphSpec(t, input, test.spec)))
			if errorType(err) != test.typ || !strings.Contains(fmt.Sprint(err), test.want) {
				t.Errorf("got %v, want an error of type %s with %q", err, test.typ, test.want)
			}
			if left := names(t, dir); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// randomGraph draws a composite with one source in which every output is taken.
func randomGraph(t *rapid.T) string {
	lines := []string{"type: composite", "transforms:", "- {type: ReadFromJson, name: t0, config: {path: INPUT/*}}"}
	taken := map[string]bool{"t0": false}
	draw := func() string { return rapid.SampledFrom(slices.Sorted(maps.Keys(taken))).Draw(t, "input") }
	for i := range rapid.IntRange(0, 7).Draw(t, "transforms") {
		name := fmt.Sprintf("t%d", i+1)
		inputs := []string{draw()}
		if more := draw(); more != inputs[0] && rapid.Bool().Draw(t, "two inputs") {
			inputs = append(inputs, more)
		}
		for _, input := range inputs {
			taken[input] = true
		}
		body := rapid.SampledFrom([]string{
			`type: Filter, config: {keep: row.n % 3 != 0, error_handling: {output: bad}}`,
			`type: MapToFields, config: {append: true, fields: {n: row.n + 1}}`,
			`type: Explode, config: {fields: [list]}`,
			`type: Deduplicate, config: {fields: [text], order_by: row.n}`,
			`type: Deduplicate, config: {fields: [n], order_by: row.n + 1, error_handling: {output: bad}}`,
			`type: Combine, config: {group_by: [text], combine: {n: {value: row.n, fn: max}, list: {value: row.n, fn: count}}}`,
			`type: Partition, config: {by: row.text, outputs: [a, b], unknown_output: c}`,
			`type: Flatten`,
		}).Draw(t, "transform")
		lines = append(lines, fmt.Sprintf("- {name: %s, input: [%s], %s}", name, strings.Join(inputs, ", "), body))
		switch {
		case strings.Contains(body, "Partition"):
			taken[name+".a"], taken[name+".b"], taken[name+".c"] = false, false, false
		case strings.Contains(body, "bad"):
			taken[name+".bad"], taken[name] = false, false
		default:
			taken[name] = false
		}
	}
	sinks := 0
	for _, name := range slices.Sorted(maps.Keys(taken)) {
		if !taken[name] {
			sinks++
			lines = append(lines, fmt.Sprintf("- {type: WriteToJson, name: w%d, input: [%s], config: {path: p%d, shards: 2}}", sinks, name, sinks))
		}
	}
	return strings.Join(lines, "\n")
}

// Whatever the graph is, the account adds up, and the dataset depends on the rows alone.
func TestRandomGraph(t *testing.T) {
	fewerChecks(t, "15")
	rapid.Check(t, func(rt *rapid.T) {
		sp := randomGraph(rt)
		rows := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
			text, _ := json.Marshal(map[string]any{
				"text": rapid.SampledFrom([]any{"a", "b", "x", nil, 1}).Draw(t, "text"),
				"n":    rapid.SampledFrom([]any{1, 2, 3, "3", nil}).Draw(t, "n"),
				"list": rapid.SampledFrom([]any{[]int{}, []int{1}, []int{1, 2}, "no"}).Draw(t, "list"),
			})
			return string(text) + "\n"
		}), 1, 30).Draw(rt, "rows")
		digest := func(files, parallelism int) string {
			content := map[string]string{}
			for i, row := range rows {
				content[fmt.Sprint(i%files)] += row
			}
			dir := t.TempDir()
			j := job(dir, graphSpec(t, write(t, content), sp))
			j.Parallelism = parallelism
			out, err := run(t, j)
			if err != nil {
				rt.Fatalf("%v\n%s", err, sp)
			}
			var kept, dropped int64
			for _, rows := range parts(t, dir) {
				kept += int64(len(rows))
			}
			for rule := range maps.Values(out.Rules) {
				dropped += rule.Dropped
			}
			rejected := int64(len(lines(t, filepath.Join(dir, "rejected", "*"))))
			want := spec.Rows{
				Read: int64(len(rows)) + out.Rows.Exploded + out.Rows.Copied, Kept: kept, Dropped: dropped, Rejected: rejected,
				Exploded: out.Rows.Exploded, Copied: out.Rows.Copied,
			}
			if out.Rows != want || want.Read != kept+dropped+rejected {
				rt.Fatalf("got %+v, found %+v\n%s", out.Rows, want, sp)
			}
			return treeDigest(t, filepath.Join(dir, "out"))
		}
		one := digest(1, 1)
		rand.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		if other := digest(3, 2); other != one && !strings.Contains(sp, "bad") { // a rejected row has its file in it
			rt.Fatalf("digest %s, and in another order %s\n%s", one, other, sp)
		}
	})
}

// Branches that meet and part again would make any number of copies.
func TestTooManyCopies(t *testing.T) {
	input := write(t, map[string]string{"in": numberedRows(0, 3)})
	diamonds := func(n int, part string) spec.Clean {
		text := "type: composite\ntransforms:\n- {type: ReadFromJson, name: d0, config: {path: INPUT/*}}\n"
		for i := range n {
			text += fmt.Sprintf(part+"- {type: Flatten, name: d%[2]d, input: [a%[1]d, b%[1]d]}\n", i, i+1)
		}
		return graphSpec(t, input, text+fmt.Sprintf("- {type: WriteToJson, input: [d%d]}", n))
	}
	const parts = "- {type: Filter, name: a%[1]d, input: [d%[1]d], config: {keep: 'true'}}\n" +
		"- {type: Filter, name: b%[1]d, input: [d%[1]d], config: {keep: 'true'}}\n"
	if out := mustRun(t, job(t.TempDir(), diamonds(9, parts))); out.Rows.Copied != 3*511 {
		t.Errorf("%d copies, want 3 times 511", out.Rows.Copied)
	}
	_, err := run(t, job(t.TempDir(), diamonds(10, parts)))
	if errorType(err) != fault.Invalid || !strings.Contains(fmt.Sprint(err), "more than 1000 copies") {
		t.Errorf("got %v, want an error about copies", err)
	}
}
