package pipelines_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/pipelines"
)

func TestCombine(t *testing.T) {
	input := write(t, map[string]string{"in": strings.Join([]string{
		`{"k": "a", "n": 1, "x": 0.1, "t": "b", "ok": true}`,
		`{"k": "a", "n": 2, "x": 0.2, "t": "a", "ok": false}`,
		`{"k": "a", "n": null, "x": 0.3, "t": "c", "ok": null}`,
		`{"k": null, "n": 9223372036854775807, "x": null, "t": null, "ok": null}`,
		`{"k": null, "n": 9223372036854775807, "x": null, "t": null, "ok": null}`,
		`{"k": "b", "n": 9007199254740993, "x": 1e300, "t": "ü", "ok": true}`,
		`{"k": "b", "n": -9007199254740992, "x": -1e300, "t": "z", "ok": true}`,
		`{"k": "b", "n": 0, "x": 1, "t": "z", "ok": true}`,
		`{"k": "a", "n": "3", "x": 1, "t": "d", "ok": true}`,
		`{"n": 3, "x": 1, "t": "d", "ok": true}`,
	}, "\n")})
	tests := []struct {
		config string
		rows   spec.Rows
		want   []string
	}{
		{
			"{group_by: [k], combine: {n: {value: 'row.k == null ? 4611686018427387903 : row.n', fn: sum}, x: {value: row.x, fn: sum}}}",
			spec.Rows{Read: 10, Kept: 3, Dropped: 5, Rejected: 2},
			[]string{`{"k":"a","n":3,"x":0.6}`, `{"k":"b","n":1,"x":1}`, `{"k":null,"n":9223372036854776000,"x":null}`},
		},
		{
			"{group_by: [k], combine: {n: {value: row.n, fn: mean}, rows: {fn: count}, of: {value: row.n, fn: count}}}",
			spec.Rows{Read: 10, Kept: 3, Dropped: 5, Rejected: 2},
			[]string{
				`{"k":"a","n":1.5,"of":2,"rows":3}`, `{"k":"b","n":0.3333333333333333,"of":3,"rows":3}`,
				`{"k":null,"n":9223372036854776000,"of":2,"rows":2}`,
			},
		},
		{
			"{group_by: [k], combine: {from: {value: row.t, fn: min}, to: {value: row.t, fn: max}, any: {value: row.ok, fn: any}, all: {value: row.ok, fn: all}}}",
			spec.Rows{Read: 10, Kept: 3, Dropped: 6, Rejected: 1},
			[]string{
				`{"all":false,"any":true,"from":"a","k":"a","to":"d"}`, `{"all":null,"any":null,"from":null,"k":null,"to":null}`,
				`{"all":true,"any":true,"from":"z","k":"b","to":"ü"}`,
			},
		},
		{
			"{group_by: [k], combine: {n: {value: row.n, fn: group}}}",
			spec.Rows{Read: 10, Kept: 3, Dropped: 6, Rejected: 1},
			[]string{`{"k":"a","n":[1,2,"3"]}`, `{"k":"b","n":[9007199254740992,0,-9007199254740992]}`, `{"k":null,"n":[9223372036854776000,9223372036854776000]}`},
		},
		{
			"{group_by: [], combine: {least: {value: row.n, fn: min}, most: {value: row.n, fn: max}}}",
			spec.Rows{Read: 10, Kept: 1, Dropped: 9},
			[]string{`{"least":-9007199254740992,"most":"3"}`},
		},
	}
	for _, test := range tests {
		t.Run(test.config, func(t *testing.T) {
			dir := t.TempDir()
			out := mustRun(t, job(dir, chain(t, input, `
- {type: ReadFromJson, config: {path: INPUT/*}}
- {type: Combine, config: `+test.config+`}
- {type: WriteToJson}
`)))
			if diff := cmp.Diff(test.rows, out.Rows); diff != "" {
				t.Errorf("account (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.want, parts(t, dir)["all"]); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
			if got := out.Rules["Combine"].Dropped; got != test.rows.Dropped {
				t.Errorf("Combine dropped %d rows, not %d", got, test.rows.Dropped)
			}
		})
	}
}

// A sum of whole numbers is one, or there is none: it does not become a double.
func TestCombineLargeSum(t *testing.T) {
	input := write(t, map[string]string{"in": strings.Repeat(`{"n": 9223372036854775807}`+"\n", 3)})
	_, err := run(t, job(t.TempDir(), chain(t, input, `
- {type: ReadFromJson, config: {path: INPUT/*}}
- {type: Combine, config: {group_by: [], combine: {n: {value: row.n, fn: sum}}}}
- {type: WriteToJson}
`)))
	if errorType(err) != fault.User || !strings.Contains(fmt.Sprint(err), "27670116110564327421, which has more than 64 bits") {
		t.Errorf("got %v", err)
	}
}

// Sums of doubles must not depend on the order of the rows, and what comes after a Combine must see its rows.
func TestCombineSameDigest(t *testing.T) {
	var rows []string
	for i := range 3000 {
		rows = append(rows, fmt.Sprintf(`{"k": %d, "x": %g}`+"\n", i%97, rand.NormFloat64()*float64(int64(1)<<(i%40))))
	}
	digest := func(files, parallelism int) string {
		rand.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		content := map[string]string{}
		for i, row := range rows {
			content[fmt.Sprint(i%files)] += row
		}
		dir := t.TempDir()
		j := job(dir, chain(t, write(t, content), `
- {type: ReadFromJson, config: {path: INPUT/*}}
- {type: Combine, config: {group_by: [k], combine: {sum: {value: row.x, fn: sum}, mean: {value: row.x, fn: mean}}}}
- {type: Filter, config: {keep: row.k != 5}}
- {type: Combine, name: all, config: {group_by: [], combine: {sum: {value: row.sum, fn: sum}, least: {value: row.mean, fn: min}, groups: {fn: count}}}}
- {type: WriteToJson}
`))
		j.Parallelism = parallelism
		out := mustRun(t, j)
		if want := (spec.Rows{Read: 3000, Kept: 1, Dropped: 2999}); out.Rows != want {
			t.Errorf("got %+v, want %+v", out.Rows, want)
		}
		if got := lines(t, filepath.Join(dir, "out", "all", "*"))[0]["groups"]; got != 96.0 {
			t.Errorf("%v groups, not 96", got)
		}
		return treeDigest(t, filepath.Join(dir, "out"))
	}
	if one, other := digest(1, 1), digest(7, 3); one != other {
		t.Errorf("digests %s and %s", one, other)
	}
}

// batchVariable names the file that a child process writes the most marks to that a Combine sorted at a time, with a bound of memory that
// is smaller by batchFactor.
const (
	batchVariable = "SLUICE_TEST_BATCH"
	batchFactor   = 32 << 10
)

func sortLess() (report func() error) {
	path := os.Getenv(batchVariable)
	if path == "" {
		return func() error { return nil }
	}
	var mu sync.Mutex
	most := 0
	pipelines.SortLess(batchFactor, func(marks int) {
		mu.Lock()
		defer mu.Unlock()
		most = max(most, marks)
	})
	return func() error { return os.WriteFile(path, []byte(strconv.Itoa(most)), 0o600) }
}

// A group whose marks do not fit the memory is divided on disk, and combined to the same row.
func TestCombineLargeGroup(t *testing.T) {
	const memory, mark = 32 << 20, 32 // what Combine may sort at a time, and the least that a mark takes
	var in strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&in, `{"x": %g}`+"\n", rand.NormFloat64()*float64(int64(1)<<(i%40)))
	}
	input := write(t, map[string]string{"in": in.String()})
	largest := filepath.Join(t.TempDir(), "largest")
	digest := func(exe string) string {
		dir := t.TempDir()
		j := job(dir, chain(t, input, `
- {type: ReadFromJson, config: {path: INPUT/*}}
- {type: Combine, config: {group_by: [], combine: {sum: {value: row.x, fn: sum}, all: {value: row.x, fn: group}}}}
- {type: WriteToJson}
`))
		if out, err := pipelines.Run(t.Context(), exe, j, nil); err != nil || out.Rows.Kept != 1 {
			t.Fatal(out.Rows, err)
		}
		return treeDigest(t, filepath.Join(dir, "out"))
	}
	if whole, divided := digest(childWith(t)), digest(childWith(t, batchVariable+"="+largest)); whole != divided {
		t.Errorf("digests %s and %s", whole, divided)
	}
	text, err := os.ReadFile(largest)
	if err != nil {
		t.Fatal(err)
	}
	if most, err := strconv.Atoi(string(text)); err != nil || most == 0 || most > memory/batchFactor/mark {
		t.Errorf("%s marks were sorted at a time, want at most %d", text, memory/batchFactor/mark)
	}
}
