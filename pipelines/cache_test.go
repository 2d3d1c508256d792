package pipelines_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/pipelines"
)

const cachedChain = `
- {type: ReadFromJson, config: {path: INPUT/*.jsonl}}
- {type: Filter, name: some, config: {keep: row.id % 7 != 0}}
- {type: Profile, name: seen, config: {columns: {len: row.text.size()}}}
- {type: MaskPII, config: {fields: [text]}}
- {type: Deduplicate, config: {fields: [text], order_by: row.id}}
- {type: Profile, name: left}
- {type: Deduplicate, name: again, config: {fields: [id]}}
- {type: Split, config: {key: row.id, parts: {a: 0.5, b: 0.5}}}
- {type: WriteToJson, config: {shards: 2}}
`

// manyFiles writes files of a hundred rows each, the last of them no JSON.
func manyFiles(from, to int) map[string]string {
	files := map[string]string{}
	for f := from; f < to; f++ {
		files[fmt.Sprintf("%03d.jsonl", f)] = numberedRows(90*f, 90*f+99) + "{\n"
	}
	return files
}

// withCache runs a job with a cache, and fails unless all that it leaves is what it leaves without one. It returns how many rows were
// reused.
func withCache(t *testing.T, cache string, sp spec.Clean, change func(*pipelines.Job)) int64 {
	t.Helper()
	leave := func(dir string) (string, spec.CleanOutput) {
		j := job(dir, sp)
		j.ProfileFile, j.AccountFile = filepath.Join(dir, "profile.json"), filepath.Join(dir, "account.jsonl")
		if dir != "" && cache != "" {
			j.Cache = pipelines.Cache{Dir: cache, Limit: 1 << 30}
		}
		if change != nil {
			change(&j)
		}
		out := mustRun(t, j)
		return treeDigest(t, dir), out
	}
	got, out := leave(t.TempDir())
	cache = ""
	want, wantOut := leave(t.TempDir())
	reused := out.Rows.Reused
	out.Rows.Reused = 0
	if diff := cmp.Diff(wantOut, out); diff != "" || got != want {
		t.Errorf("with the cache the digest is %s, without it %s; result (-without +with):\n%s", got, want, diff)
	}
	return reused
}

func addFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// What a cut rejects is worked on in the segment before it.
func TestCacheOfRejected(t *testing.T) {
	input, cache := write(t, manyFiles(0, 2)), t.TempDir()
	for i, keep := range []string{"row.offset % 2 == 0", "row.offset % 2 == 1"} {
		got := withCache(t, cache, graphSpec(t, input, `
transforms:
- {type: ReadFromJson, config: {path: INPUT/*.jsonl}}
- {type: Deduplicate, config: {fields: [text], order_by: 10 / (row.id % 3), error_handling: {output: bad}}}
- {type: WriteToJson}
extra_transforms:
- {type: Filter, name: some, input: [Deduplicate.bad], config: {keep: `+keep+`}}
- {type: WriteToJson, name: bad, input: [some], config: {path: bad}}
`), nil)
		if got != 0 {
			t.Errorf("run %d: %d rows reused, want none", i, got)
		}
	}
}

// Files that have not changed are not read again, and nothing else is taken from the cache.
func TestCache(t *testing.T) {
	input, cache := write(t, manyFiles(1, 11)), t.TempDir()
	check := func(what string, want int64, spec string) {
		t.Helper()
		if got := withCache(t, cache, chain(t, input, spec), nil); got != want {
			t.Errorf("%s: %d rows reused, want %d", what, got, want)
		}
	}
	check("the first run", 0, cachedChain)
	addFiles(t, input, manyFiles(0, 1)) // before the others, so that these lie elsewhere in their unit
	check("a new file", 1000, cachedChain)
	check("nothing new", 1100, cachedChain)
	addFiles(t, input, map[string]string{"003.jsonl": numberedRows(0, 10)})
	check("a changed file", 1000, cachedChain)
	if err := os.Remove(filepath.Join(input, "000.jsonl")); err != nil {
		t.Fatal(err)
	}
	check("a file less", 910, cachedChain)
	check("another transform", 0, `
- {type: ReadFromJson, config: {path: INPUT/*.jsonl}}
- {type: Filter, name: some, config: {keep: row.id % 5 != 0}}
- {type: Deduplicate, config: {fields: [text], order_by: row.id}}
- {type: WriteToJson}
`)
	check("another transform after the first cut", 910, `
- {type: ReadFromJson, config: {path: INPUT/*.jsonl}}
- {type: Filter, name: some, config: {keep: row.id % 5 != 0}}
- {type: Deduplicate, config: {fields: [text], order_by: row.id}}
- {type: Filter, name: late, config: {keep: row.id % 3 != 0}}
- {type: WriteToJson}
`)
}

// An entry that is damaged is none.
func TestCacheDamaged(t *testing.T) {
	input, cache := write(t, manyFiles(0, 4)), t.TempDir()
	withCache(t, cache, chain(t, input, cachedChain), nil)
	damage := []func(path string, text []byte) error{
		func(path string, text []byte) error { return os.Truncate(path, int64(len(text)/2)) },
		func(path string, _ []byte) error { return os.Truncate(path, 0) },
		func(path string, text []byte) error { text[len(text)/2] ^= 1; return os.WriteFile(path, text, 0o666) },
		func(path string, text []byte) error { text[3] ^= 1; return os.WriteFile(path, text, 0o666) },
	}
	entries := glob(t, filepath.Join(cache, "*", "*"))
	if len(entries) != len(damage) {
		t.Fatalf("%d entries", len(entries))
	}
	for i, path := range entries {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := damage[i](path, text); err != nil {
			t.Fatal(err)
		}
	}
	if got := withCache(t, cache, chain(t, input, cachedChain), nil); got != 0 {
		t.Errorf("%d rows reused of damaged entries", got)
	}
	if got := withCache(t, cache, chain(t, input, cachedChain), nil); got != 400 {
		t.Errorf("%d rows reused, want 400", got)
	}
}

// A piece of a large file is known by its place, and a run with a file that is known by the caller's digest reuses it wherever it is.
func TestCacheOfPieces(t *testing.T) {
	cache := t.TempDir()
	rows := numberedRows(0, 150_000)
	for i, want := range []int64{0, 150_000} {
		input := write(t, map[string]string{"in.jsonl": rows})
		digests := filepath.Join(t.TempDir(), "digests.json")
		if err := os.WriteFile(digests, fmt.Appendf(nil, `{%q: "sha256:one"}`, filepath.Join(input, "in.jsonl")), 0o666); err != nil {
			t.Fatal(err)
		}
		got := withCache(t, cache, chain(t, input, cachedChain), func(j *pipelines.Job) { j.Cache.Digests = digests })
		if got != want {
			t.Errorf("run %d: %d rows reused, want %d", i, got, want)
		}
	}
	if n := len(glob(t, filepath.Join(cache, "*", "*"))); n < 2 {
		t.Errorf("%d entries for a file of several pieces", n)
	}
}

// A file whose content is replaced is read again, also by a program such as tar, which gives it the time that it has in the archive. A link
// to it is a change as well, as far as can be seen, unless the caller knows the content.
func TestCacheOfReplaced(t *testing.T) {
	input, cache := write(t, nil), t.TempDir()
	path, digests := filepath.Join(input, "in.jsonl"), filepath.Join(t.TempDir(), "digests.json")
	put := func(rows string) {
		t.Helper()
		ago := time.Now().Add(-time.Hour).Truncate(time.Hour)
		changed := func() syscall.Timespec {
			var at syscall.Stat_t
			_ = syscall.Stat(path, &at) // without a file, at no time
			return at.Ctim
		}
		for before := changed(); changed() == before; { // clocks of file systems are coarse
			if err := errors.Join(os.WriteFile(path, []byte(rows), 0o666), os.Chtimes(path, ago, ago)); err != nil {
				t.Fatal(err)
			}
		}
	}
	reused := func(change func(*pipelines.Job)) int64 {
		t.Helper()
		return withCache(t, cache, chain(t, input, cachedChain), change)
	}
	known := func(j *pipelines.Job) { j.Cache.Digests = digests }
	put(numberedRows(100, 110))
	if n := reused(nil) + reused(nil); n != 10 {
		t.Errorf("%d rows reused, want those of the second run", n)
	}
	put(numberedRows(200, 210))
	if n := reused(nil); n != 0 {
		t.Errorf("%d rows reused of a file that was replaced", n)
	}
	if err := os.WriteFile(digests, fmt.Appendf(nil, `{%q: "sha256:one"}`, path), 0o666); err != nil {
		t.Fatal(err)
	}
	reused(known)
	if err := os.Link(path, filepath.Join(t.TempDir(), "link")); err != nil {
		t.Fatal(err)
	}
	if n := reused(known); n != 10 {
		t.Errorf("after a link was made, %d rows are reused of a file that the caller knows, want 10", n)
	}
}

// What has not been used for longest goes first, and what is too large for the cache is not put into it.
func TestCacheLimit(t *testing.T) {
	input, cache := write(t, manyFiles(0, 5)), t.TempDir()
	run := func(limit int64) spec.CleanOutput {
		j := job(t.TempDir(), chain(t, input, cachedChain))
		j.Cache = pipelines.Cache{Dir: cache, Limit: limit}
		return mustRun(t, j)
	}
	size := func() (size int64) {
		err := filepath.WalkDir(cache, func(_ string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				info, infoErr := d.Info()
				size, err = size+info.Size(), infoErr
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return size
	}
	run(1 << 20)
	all := size()
	run(all - 1)
	if got := len(glob(t, filepath.Join(cache, "*", "*"))); got != 4 {
		t.Errorf("%d entries are left, want 4", got)
	}
	if out := run(1 << 20); out.Rows.Reused != 400 || size() != all {
		t.Errorf("%d rows reused and %d bytes, want 400 and %d", out.Rows.Reused, size(), all)
	}
	if run(1000); size() > 1000 {
		t.Errorf("%d bytes are left, want 1000 at most", size())
	}
}

// A retry goes on with what the attempt before it has read.
func TestCacheOfKilled(t *testing.T) {
	dir, cache, input := t.TempDir(), t.TempDir(), heldInput(t)
	spec := chain(t, input, slowChain)
	j := job(dir, spec)
	j.Cache = pipelines.Cache{Dir: cache, Limit: 1 << 30}
	err := midRun(t, j, func(context.CancelFunc) {
		await(t, "entry in the cache", func() bool { return len(glob(t, filepath.Join(cache, "*", "*"))) > 0 })
		killChildren(t)
	})
	if err == nil {
		t.Fatal("the job was done before it could be killed")
	}
	if left := names(t, dir); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	shorten(t, input)
	if reused := withCache(t, cache, spec, nil); reused == 0 {
		t.Error("nothing was reused")
	}
}

// The answers of programs are kept when all is known that they depend on.
func TestCacheOfExec(t *testing.T) {
	input, cache := write(t, manyFiles(0, 1)), t.TempDir()
	for _, tt := range []struct {
		programs string
		want     int64
	}{{"one", 0}, {"one", 100}, {"two", 0}, {"", 0}, {"", 0}} {
		got := withCache(t, cache, chain(t, input, execChain), func(j *pipelines.Job) {
			j.Programs = pipelines.Programs{
				Dir: write(t, map[string]string{"detect.py": detect}),
				Env: []string{"PATH=" + os.Getenv("PATH"), "PYTHONUNBUFFERED=1", "WORD=" + tt.programs},
			}
			j.Cache.Programs = tt.programs
		})
		if got != tt.want {
			t.Errorf("programs %q: %d rows reused, want %d", tt.programs, got, tt.want)
		}
	}
}

// What is hashed is known by the fingerprint of the key that it is hashed with; without one nothing is kept.
func TestCacheOfHashes(t *testing.T) {
	cache := t.TempDir()
	spec := chain(t, write(t, manyFiles(0, 3)), `
- {type: ReadFromJson, config: {path: INPUT/*}}
- {type: MaskPII, config: {fields: [text], action: hash, key: KEY}}
- {type: WriteToJson}
`)
	reused := func(value, fingerprint string) int64 {
		return withCache(t, cache, spec, func(j *pipelines.Job) {
			j.Secrets = map[string]string{"KEY": value}
			if fingerprint != "" {
				j.Cache.Secrets = map[string]string{"KEY": fingerprint}
			}
		})
	}
	if n := reused("a", ""); n != 0 {
		t.Errorf("%d rows reused in an empty cache", n)
	}
	if n := reused("a", ""); n != 0 {
		t.Errorf("%d rows reused without a fingerprint", n)
	}
	if n := reused("a", "1"); n != 0 {
		t.Errorf("%d rows reused that were never kept", n)
	}
	if n := reused("a", "1"); n == 0 {
		t.Error("nothing is reused with the same key")
	}
	if n := reused("b", "2"); n != 0 {
		t.Errorf("%d rows reused that were hashed with another key", n)
	}
}

// What is held out is known by the digest of the input that it lies in, also if the name of another input begins its name. Nothing is kept
// if some of it lies elsewhere.
func TestCacheOfDecontaminate(t *testing.T) {
	input, cache, inputs := write(t, manyFiles(0, 1)), t.TempDir(), t.TempDir()
	elsewhere := write(t, map[string]string{"e.jsonl": `{"text": "held out in a file that no input has"}` + "\n"})
	for _, name := range []string{"held", "heldout"} {
		if err := os.Mkdir(filepath.Join(inputs, name), 0o777); err != nil {
			t.Fatal(err)
		}
		addFiles(t, filepath.Join(inputs, name), map[string]string{"a.jsonl": `{"text": "some of the words that are held out"}` + "\n"})
	}
	for _, tt := range []struct {
		against, digest string // of heldout
		want            int64
	}{
		{"heldout/*.jsonl", "one", 0},
		{"heldout/*.jsonl", "one", 100},
		{"heldout/*.jsonl", "two", 0},
		{"held/*.jsonl", "two", 0},
		{"held/*.jsonl", "three", 100},
		{"held/*.jsonl, ELSEWHERE/*.jsonl", "three", 0},
		{"held/*.jsonl, ELSEWHERE/*.jsonl", "three", 0},
	} {
		against := strings.ReplaceAll(inputs+"/"+tt.against, "ELSEWHERE", elsewhere)
		sp := chain(t, input, `
- {type: ReadFromJson, config: {path: INPUT/*.jsonl}}
- {type: Decontaminate, config: {fields: [text], ngram: 5, against: [`+against+`]}}
- {type: Deduplicate, config: {fields: [id]}}
- {type: WriteToJson}
`)
		got := withCache(t, cache, sp, func(j *pipelines.Job) {
			j.Cache.Inputs = map[string]string{filepath.Join(inputs, "held"): "some", filepath.Join(inputs, "heldout"): tt.digest}
		})
		if got != tt.want {
			t.Errorf("against %s, heldout %s: %d rows reused, want %d", tt.against, tt.digest, got, tt.want)
		}
	}
}
