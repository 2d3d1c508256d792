package dsl

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluiceml/sluice/dsl/document"
)

// dumped are steps as json.dumps writes them.
func dumped(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`"s%d": {"run": {"command": ["echo", "${run.id}", "some words, and more of them"], "outputs": {"n": {"type": "int"}}}, "gate": "n > 1"}`, i)
	}
	return strings.Join(all, ", ")
}

// TestHostile: what is too large, too deep or no text is refused in words, and soon. The time is no measure of speed: it only keeps
// work that grows faster than the document from passing.
func TestHostile(t *testing.T) {
	const head = "sluice: pipeline/v1\nname: x\n"
	command := func(items string) string { return head + "steps:\n  a:\n    run: {command: [" + items + "]}\n" }
	steps := func(n int, step func(i int) string) string {
		var b strings.Builder
		b.WriteString(head + "steps:\n")
		for i := range n {
			fmt.Fprintf(&b, "  s%d: %s\n", i, step(i))
		}
		return b.String()
	}
	transforms := func(n int, transform func(i int) string) string {
		var b strings.Builder
		b.WriteString(head + "steps:\n  a:\n    gate: rows.kept > 0\n    clean:\n      type: composite\n      transforms:\n")
		b.WriteString("        - {type: ReadFromText, name: t, config: {path: x}}\n        - {type: WriteToJson, input: t}\n")
		for i := range n {
			fmt.Fprintf(&b, "        - {name: t%d, %s}\n", i, transform(i))
		}
		return b.String()
	}
	bomb := "a: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		bomb += fmt.Sprintf("b%d: &a%d [%s]\n", i, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	for _, c := range []struct{ name, text, want string }{
		{"10 MB", head + strings.Repeat("# a comment\n", 900_000), "error[limit]: the document is larger than 512 kB"},
		{"a long line", command(strings.Repeat("a,", 200_000)), ""},
		{"a long line of expressions", command(strings.Repeat("\"${rn.id} and so on and on\", ", 5000)), "error[limit]: there are more than 1000 findings"},
		{"a long line of steps", head + "steps: {" + dumped(2500) + "}\n", ""},
		{"a long line of mistakes", head + "steps: {" + strings.ReplaceAll(dumped(2500), `"run":`, `"rum":`) + "}\n", "error[limit]: there are more than 1000 findings"},
		{"a long line without an end", head + "steps: {" + dumped(2500) + "\n", "error[yaml]"},
		{"a long line of tags", command(strings.Repeat("!a x, ", 60_000)), "error[limit]: there are more than 1000 findings"},
		{"a long line of brackets", command(strings.Repeat("[", 100_000)), "error["},
		{"a long line of dashes", head + "steps:\n" + strings.Repeat("- ", 100_000), "error["},
		{"a long line of question marks", head + strings.Repeat("? ", 100_000), "error["},
		{"many items", command(strings.Repeat("a,\n", 100_000)), ""},
		{"10,000 steps", steps(10_000, func(int) string { return "{run: {command: [echo]}}" }), "x:5004:3: error[limit]: there are more than 5000 steps"},
		{"a chain of 2,000", steps(2000, func(i int) string {
			return fmt.Sprintf("{needs: [%s], run: {command: [echo], outputs: {n: {type: int}}}, gate: n > 1}", strings.Repeat(fmt.Sprint("s", i-1), min(i, 1)))
		}), ""},
		{"many expressions", command("\n" + strings.Repeat("\"${run.id}${run.id}${run.id}${run.id}\",\n", 3000)), "error[limit]: the document has more than 10000 expressions"},
		{"a long text", command("\"" + strings.Repeat("${run.id}\n", 10_000) + "\""), "error[limit]: a string with ${} is longer than 16384 bytes"},
		{"many mistakes", steps(4000, func(int) string { return "{rum: {command: [echo]}}" }), "error[limit]: there are more than 1000 findings"},
		{"many in one text", command("\"" + strings.Repeat("${rn.id}\n", 1500) + "\""), "error[limit]: there are more than 1000 findings"},
		{"transforms without inputs", transforms(3000, func(i int) string {
			return fmt.Sprintf("type: Filter, input: none%d, config: {keep: row.a > 1}", i)
		}), "error[limit]: there are more than 1000 findings"},
		{"a chain of 2,000 transforms", transforms(2000, func(i int) string {
			return fmt.Sprintf("type: MapToFields, input: t%s, config: {append: true, fields: {a%d: row.text, b: row.no}}", strings.Repeat(fmt.Sprint(i-1), min(i, 1)), i)
		}), "`no` is not a field"},
		{"a long expression", command("\"${" + strings.Repeat("1+", 5000) + "1}\""), "error[syntax]"},
		{"a deep expression", command("\"${" + strings.Repeat("(", 1000) + "}\""), "error[syntax]"},
		{"deep brackets", command(strings.Repeat("[", 8000) + strings.Repeat("]", 8000)), "error["},
		{"open brackets", command(strings.Repeat("[", 8000)), "error[yaml]"},
		{"deep blocks", head + "steps:\n" + strings.Repeat("- ", 8000), "error["},
		{"question marks", head + strings.Repeat("? ", 8000), "error["},
		{"aliases of aliases", head + bomb, "error["},
		{"an endless quote", head + "steps: \"" + strings.Repeat("a\n", 100_000), "error[yaml]"},
		{"one key again and again", head + "steps:\n" + strings.Repeat("  a: {run: {command: [x]}}\n", 4000), "error[duplicate]"},
		{"a NUL", head + "steps: \x00", "x:3:8: error[encoding]"},
		{"no UTF-8", head + "steps: \xff", "x:3:8: error[encoding]"},
		{"UTF-16", "\xff\xfes\x00l\x00", "x:1:1: error[encoding]"},
		{"a byte order mark", "\ufeff" + command("a"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			began := cpuTime(t)
			_, diags := Compile(document.File{Name: "x", Source: []byte(c.text)}, document.File{}, nil)
			text := diags.Text(false)
			if c.want == "" && len(diags) > 0 || !strings.Contains(text, c.want) {
				t.Errorf("want %q, got %.400s", c.want, text)
			}
			if len(diags) > document.MaxFindings+1 {
				t.Errorf("%d findings", len(diags))
			}
			document.Format(document.File{Name: "x", Source: []byte(c.text)})
			if took := cpuTime(t) - began; took > 30*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}

// cpuTime returns the CPU time that this process has used. Unlike the time of day, it hardly depends on what else the machine does.
func cpuTime(t *testing.T) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
