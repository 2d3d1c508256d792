package pipelines_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/pipelines"
)

// An input of five times the memory that cleaning may take is cleaned within it, as the kernel counts: a job that exceeds its memory
// fails, and the process says at its end what was the most. It takes a while: the program alone takes 60 MiB,
// so that less memory would not tell much.
func TestMoreThanMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("how much memory a process has held is read from /proc")
	}
	if testing.Short() {
		t.Skip("it writes a gigabyte")
	}
	const memory, size = 224 << 20, 5 * 224 << 20
	in := t.TempDir()
	rows := writeLarge(t, filepath.Join(in, "in.jsonl"), size)
	dir := t.TempDir()
	peak := filepath.Join(dir, "peak")
	j := job(dir, chain(t, in, `
- {type: ReadFromJson, config: {path: INPUT/*}}
- {type: Filter, name: some, config: {keep: row.id % 10 != 0}}
- {type: Deduplicate, config: {fields: [text]}}
- {type: Split, config: {key: row.text, parts: {train: 0.9, test: 0.1}}}
- {type: WriteToJson, config: {shards: 2}}
`))
	j.Memory = memory
	out, err := pipelines.Run(t.Context(), childWith(t, peakVariable+"="+peak), j, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := spec.Rows{Read: rows, Kept: out.Rows.Kept, Dropped: rows - out.Rows.Kept}
	if out.Rows != want || out.Duplicates.Dropped == 0 || out.Splits["train"] == 0 || out.Splits["test"] == 0 {
		t.Errorf("got %+v of %d rows, %+v, %v", out.Rows, rows, out.Duplicates, out.Splits)
	}
	text, err := os.ReadFile(peak)
	if err != nil {
		t.Fatal(err)
	}
	var held int64
	if _, err := fmt.Sscan(string(text), &held); err != nil {
		t.Fatal(err)
	}
	if held <<= 10; held > memory {
		t.Errorf("%d MiB were cleaned with %d MiB of memory, want at most %d", size>>20, held>>20, memory>>20)
	}
	t.Logf("%d rows, %d MiB, with %d MiB of memory", rows, size>>20, held>>20)
}

// writeLarge writes about so many bytes of rows, of which one in eight has the text of another, and returns how many there are.
func writeLarge(t *testing.T, path string, size int) (rows int64) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	r := rand.New(rand.NewPCG(8, 9))
	words := strings.Repeat("some words of a document that is not short ", 40)
	for written := 0; written < size; rows++ {
		n, _ := fmt.Fprintf(w, `{"id": %d, "text": "%d %s"}`+"\n", rows, r.IntN(4*size/len(words)), words[:r.IntN(len(words))])
		written += n
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return rows
}

// peakVariable names the file that a child process writes the most memory it has held to, in KiB.
const peakVariable = "SLUICE_TEST_PEAK"

// reportPeak does so when it is set.
func reportPeak() {
	path := os.Getenv(peakVariable)
	status, err := os.ReadFile("/proc/self/status")
	if path == "" || err != nil {
		return
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	peak, _, _ := strings.Cut(strings.TrimSpace(after), " ")
	if err := os.WriteFile(path, []byte(peak), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// An earlier version's rows are in the parts of a later one that they were in, whatever is added.
func TestSplitGrows(t *testing.T) {
	rows := manyRows(600)
	parts := func(n int) map[any]string {
		dir := t.TempDir()
		mustRun(t, job(dir, chain(t, write(t, map[string]string{"in": strings.Join(rows[:n], "")}), `
- {type: ReadFromJson, config: {path: INPUT/*}}
- {type: Split, config: {key: row.text, parts: {train: 0.7, dev: 0.2, test: 0.1}}}
- {type: WriteToJson, config: {shards: 2}}
`)))
		of := map[any]string{}
		for _, part := range []string{"train", "dev", "test"} {
			for _, row := range lines(t, filepath.Join(dir, "out", part, "*")) {
				of[row["id"]] = part
			}
		}
		return of
	}
	before, after := parts(200), parts(600)
	if len(before) != 200 || len(after) != 600 {
		t.Fatalf("%d and %d rows", len(before), len(after))
	}
	for id, part := range before {
		if after[id] != part {
			t.Errorf("row %v was in %s and is in %s", id, part, after[id])
		}
	}
}

// The rows of a dataset do not depend on the number of its shards, nor on what lies in which of the input's files.
func TestSameRowsInAnyShards(t *testing.T) {
	rows := manyRows(1500)
	want := ""
	for _, c := range []struct{ shards, files, parallelism int }{{1, 1, 1}, {7, 3, 2}, {64, 20, 4}} {
		rand.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		content := map[string]string{}
		for i, row := range rows {
			content[fmt.Sprint(i%c.files)] += row
		}
		dir := t.TempDir()
		j := job(dir, chain(t, write(t, content), strings.ReplaceAll(dedupAndSplit, "shards: 3", fmt.Sprint("shards: ", c.shards))))
		j.Parallelism = c.parallelism
		mustRun(t, j)
		if got := sortedRows(t, dir); want == "" {
			want = got
		} else if got != want {
			t.Errorf("%+v: other rows", c)
		}
	}
}

// sortedRows are all lines of a dataset with their parts, sorted.
func sortedRows(t *testing.T, dir string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "out", "*", "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			all = append(all, filepath.Base(filepath.Dir(path))+" "+line)
		}
	}
	slices.Sort(all)
	return strings.Join(all, "")
}
