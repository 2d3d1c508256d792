package pipelines_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/internal/testing/rig"
)

// peers is a process of testdata/peers.py.
type peers struct {
	in  io.Writer
	out *bufio.Reader
}

func startPeers(t *testing.T) *peers {
	t.Helper()
	python, err := rig.Program("peers", "bin/python3")
	if err != nil {
		rig.Skip(t, err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), python, "-B", "testdata/peers.py")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	return &peers{in, bufio.NewReader(out)}
}

// ask sends a command and returns the answer; "" if all is well.
func (p *peers) ask(t *testing.T, command map[string]any) (answer string) {
	t.Helper()
	text, err := json.Marshal(command)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.in.Write(append(text, '\n')); err != nil {
		t.Fatal(err)
	}
	line, err := p.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &answer)
	}
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// same is an expression over rows, and what it is in SQL.
type same struct{ cel, sql string }

// conditions are true or false for each row, whatever is null in it.
var conditions = []same{
	{`row.d != null && row.d > 1.5`, `d > 1.5`},
	{`row.d != null && row.d <= decimal("-3.125")`, `d <= -3.125`},
	{`row.d != null && row.d * 2 >= row.g`, `d * 2 >= g`},
	{`row.d == null || row.d != 0`, `d is null or d <> 0`},
	{`row.x != null && row.x < 0.5`, `x < 0.5`}, // of NaN neither: it is the largest there, and here nothing is less
	{`row.x != null && row.x == 0.5`, `x = 0.5`},
	{`row.u != null && row.u > 9223372036854775807u`, `u > 9223372036854775807`},
	{`row.u != null && row.u < 5`, `u < 5`},
	{`row.u != null && row.u == row.g`, `u = g`},
	{`row.ts != null && row.ts >= timestamp("2021-06-01T12:00:00.5Z")`, `ts >= timestamptz '2021-06-01 12:00:00.5+00'`},
	{`row.lt != null && row.lt < timestamp("2021-06-01T00:00:00Z")`, `lt < timestamp '2021-06-01 00:00:00'`},
	{`row.day != null && row.day >= timestamp("2021-01-01T00:00:00Z")`, `day >= date '2021-01-01'`},
	{`row.day != null && row.lt != null && row.day < row.lt`, `day < lt`},
	{`row.ts != null && row.ts.getFullYear() == 2021`, `year(ts) = 2021`},
	{`row.g in [1, 2, 4]`, `g in (1, 2, 4)`},
	{`row.s != null && row.s < "a"`, `s < 'a'`},
	{`row.s == null || row.s.size() == 1`, `s is null or length(s) = 1`},
	{`row.ok == true`, `ok`},
	{`row.raw != null && row.raw.size() > 1`, `octet_length(raw) > 1`},
}

// computed are fields that a row has besides.
var computed = []same{
	{`row.d == null ? null : dyn(row.d * 2)`, `d * 2`},
	{`row.d == null ? null : dyn(row.d + row.d - row.g)`, `d + d - g`},
	{`row.d == null ? null : dyn(row.d / 4)`, `d / 4`},
	{`row.d == null ? null : dyn(-row.d)`, `-d`},
	{`row.d == null ? null : dyn(double(row.d) * 0.5)`, `d::double * 0.5`},
	{`row.d == null ? null : dyn(row.d * 0.5 < 1.0)`, `d::double * 0.5 < 1.0`},
	{`row.g + 1`, `g::bigint + 1`},
	{`row.x == null ? null : dyn(row.x * 2)`, `x * 2`},
	{`row.x == null ? null : dyn(row.x + row.g)`, `x + g`},
	{`row.u == null ? null : dyn(row.u)`, `u`},
	{`row.ts == null ? null : dyn(row.ts + duration("36h"))`, `ts + interval 36 hour`},
	{`row.day == null ? null : dyn(row.day + duration("12h"))`, `day + interval 12 hour`},
	{`row.lt == null ? null : dyn(row.lt - duration("1ms"))`, `lt - interval 1 millisecond`},
	{`row.ts == null ? null : dyn(int(row.ts))`, `floor(epoch_us(ts) / 1e6)::bigint`},
	{`row.s == null ? null : dyn(row.s + "!")`, `s || '!'`},
}

// combined are aggregates of a group: function, expression, and SQL.
var combined = []struct{ fn, cel, sql string }{
	{"sum", "row.d", "sum(d)"},
	{"mean", "row.d", "avg(d)"},
	{"min", "row.d", "min(d)"},
	{"max", "row.d", "max(d)"},
	{"sum", "row.g", "sum(g)"},
	{"min", "row.u", "min(u)"},
	{"max", "row.u", "max(u)"},
	{"max", "row.x", "max(x)"},
	{"min", "row.ts", "min(ts)"},
	{"max", "row.ts", "max(ts)"},
	{"max", "row.lt", "max(lt)"},
	{"min", "row.day", "min(day)"},
	{"min", "row.s", "min(s)"},
	{"max", "row.raw", "max(raw)"},
	{"any", "row.ok", "bool_or(ok)"},
	{"count", "row.d", "count(d)"},
}

// order are fields that rows may be ordered by, when the first of several is kept.
var order = []string{"d", "u", "ts", "lt", "day", "s", "ok", "id"}

// TestAgainstDuckDB: chains of transforms over columns of all types have the rows that DuckDB has.
func TestAgainstDuckDB(t *testing.T) {
	rounds := 20
	if os.Getenv("SLUICE_TEST_SOAK") != "" {
		rounds = 200
	}
	p := startPeers(t)
	for seed := range rounds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			dir := t.TempDir()
			table := filepath.Join(dir, "t.parquet")
			p.ask(t, map[string]any{"make": table, "seed": seed})
			steps, query := randomChain(rand.New(rand.NewPCG(uint64(seed), 1))) //nolint:gosec // a test
			text := "- {type: ReadFromParquet, config: {path: INPUT/t.parquet}}\n" + steps + "- {type: WriteToParquet}\n"
			out := mustRun(t, job(dir, chain(t, dir, text)))
			if out.Rows.Rejected > 0 {
				t.Errorf("%d rows are rejected: %v", out.Rows.Rejected, rejections(t, dir)[0])
			}
			if bad := p.ask(t, map[string]any{"query": query, "in": table, "out": filepath.Join(dir, "out/all/*.parquet")}); bad != "" {
				t.Errorf("%s\n%s\n%s", text, query, bad)
			}
		})
	}
}

// randomChain returns transforms and the same as SQL.
func randomChain(r *rand.Rand) (transforms, query string) {
	query = "select * from t"
	add := func(typ string, config map[string]any, sql string, args ...any) {
		text, _ := json.Marshal(map[string]any{"type": typ, "name": fmt.Sprint("step", strings.Count(transforms, "\n")), "config": config})
		transforms += "- " + string(text) + "\n"
		query = fmt.Sprintf(strings.ReplaceAll(sql, "FROM", "from ("+strings.ReplaceAll(query, "%", "%%")+")"), args...)
	}
	fields := []string{"id", "g", "u", "x", "d", "ts", "lt", "day", "s", "ok", "raw"}
	for range 1 + r.IntN(4) {
		switch c := conditions[r.IntN(len(conditions))]; r.IntN(2) {
		case 0:
			add("Filter", map[string]any{"keep": c.cel}, "select * FROM where %s", c.sql)
		case 1:
			c := computed[r.IntN(len(computed))]
			name := fmt.Sprint("f", len(fields))
			fields = append(fields, name)
			add("MapToFields", map[string]any{"append": true, "fields": map[string]string{name: c.cel}}, "select *, %s as %s FROM", c.sql, name)
		}
	}
	switch by := []string{"g", "d", "day", "u", "s", "ok"}[r.IntN(6)]; r.IntN(3) {
	case 0: // all columns
	case 1:
		of := order[r.IntN(len(order))]
		if of == by {
			of = "id"
		}
		add("Deduplicate", map[string]any{"fields": []string{by}, "order_by": "row." + of}, "select %s, min(%s) as least FROM group by all", by, of)
		add("MapToFields", map[string]any{"fields": map[string]string{by: "row." + by, "least": "row." + of}}, "select * FROM")
	case 2:
		combine, list := map[string]any{"n": map[string]string{"fn": "count"}}, []string{by, "count(*) as n"}
		for _, at := range r.Perm(len(combined))[:4] {
			c := combined[at]
			name := fmt.Sprint("c", at)
			combine[name] = map[string]string{"fn": c.fn, "value": c.cel}
			list = append(list, c.sql+" as "+name)
		}
		slices.Sort(list)
		add("Combine", map[string]any{"group_by": []string{by}, "combine": combine}, "select %s FROM group by %s", strings.Join(list, ", "), by)
	}
	return transforms, query
}

// TestAgainstWriters: what other programs write with logical types comes out of a cleaning equal, in Parquet with the same types.
func TestAgainstWriters(t *testing.T) {
	p := startPeers(t)
	for who, reader := range map[string]string{"pyarrow": "Parquet", "polars": "Parquet", "fastavro": "Avro"} {
		for _, writer := range []string{"Parquet", "Avro"} {
			t.Run(who+" to "+writer, func(t *testing.T) {
				dir := t.TempDir()
				in, out := filepath.Join(dir, "in."+strings.ToLower(reader)), filepath.Join(dir, "out/all/part-00000-of-00001."+strings.ToLower(writer))
				p.ask(t, map[string]any{"write": who, "path": in})
				mustRun(t, job(dir, chain(t, dir, "[{type: ReadFrom"+reader+", config: {path: "+in+"}}, {type: Deduplicate}, {type: WriteTo"+writer+"}]")))
				if bad := p.ask(t, map[string]any{"equal": []string{in, out}}); bad != "" {
					t.Error(bad)
				}
			})
		}
	}
}
