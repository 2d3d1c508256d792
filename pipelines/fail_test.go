package pipelines_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/pipelines"
)

// slowInput is enough rows to keep a job busy for seconds.
func slowInput(t *testing.T) string {
	t.Helper()
	row := strings.Repeat("word ", 400)
	var text strings.Builder
	for i := range 12_000 {
		fmt.Fprintf(&text, `{"text": "%d %s"}`+"\n", i, row)
	}
	return write(t, map[string]string{"in.jsonl": text.String()})
}

const slowChain = `
- {type: ReadFromJson, config: {path: INPUT/*}}
- {type: NormalizeText, config: {fields: [text], form: NFKC}}
- {type: Deduplicate, config: {fields: [text]}}
- {type: WriteToJson}
`

// heldInput is slowInput forty times over, without the disk for it, so that a job that reads it goes on until it is stopped: it is done in
// a minute, if nobody comes.
func heldInput(t *testing.T) string {
	t.Helper()
	input := slowInput(t)
	for i := range 40 {
		if err := os.Symlink(filepath.Join(input, "in.jsonl"), filepath.Join(input, fmt.Sprintf("%s%d.jsonl", again, i))); err != nil {
			t.Fatal(err)
		}
	}
	return input
}

// again begins the names of the files of heldInput that slowInput has not: they are read after it.
const again = "z-again-"

// shorten makes slowInput of heldInput.
func shorten(t *testing.T, input string) {
	t.Helper()
	for _, path := range glob(t, filepath.Join(input, again+"*")) {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// midRun starts a job and calls interrupt when its child has spilled rows. It returns the job's error.
func midRun(t *testing.T, j pipelines.Job, interrupt func(cancel context.CancelFunc)) error {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := pipelines.Run(ctx, exe, j, nil)
		done <- err
	}()
	spills := filepath.Join(filepath.Dir(j.OutputDir), ".clean-*", "spill", "*")
	for len(glob(t, spills)) == 0 {
		select {
		case err := <-done:
			t.Fatalf("the job ended before it was interrupted: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	interrupt(cancel)
	return <-done
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// killChildren sends SIGKILL to the processes of this test that run a job, but not to their keepers.
func killChildren(t *testing.T) {
	t.Helper()
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	killed := 0
	for _, path := range glob(t, "/proc/[0-9]*/cmdline") {
		command, err := os.ReadFile(path)
		args := strings.Split(string(command), "\x00")
		if err != nil || len(args) < 2 || args[1] != pipelines.Arg {
			continue
		}
		if exe, err := os.Readlink(filepath.Join(filepath.Dir(path), "exe")); err != nil || exe != self {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err == nil {
			killed++
		}
	}
	if killed == 0 {
		t.Error("found no child process to kill")
	}
}

// A child that is killed leaves nothing, and the job may be run again.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	input := heldInput(t)
	j := job(dir, chain(t, input, slowChain))
	err := midRun(t, j, func(context.CancelFunc) { killChildren(t) })
	if errorType(err) != fault.Infrastructure || !strings.Contains(err.Error(), "killed") {
		t.Errorf("got %v, want an infrastructure error that says it was killed", err)
	}
	if left := names(t, dir); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	shorten(t, input)
	if out := mustRun(t, j); out.Rows.Kept != 12_000 {
		t.Errorf("the second run kept %d rows, want 12000", out.Rows.Kept)
	}
}

func TestCanceled(t *testing.T) {
	dir := t.TempDir()
	j := job(dir, chain(t, heldInput(t), slowChain))
	err := midRun(t, j, func(cancel context.CancelFunc) { cancel() })
	if errorType(err) != fault.Canceled || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want a canceled error", err)
	}
	if left := names(t, dir); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestMemoryLimit(t *testing.T) {
	dir := t.TempDir()
	j := job(dir, chain(t, slowInput(t), slowChain))
	j.Memory = 20 << 20
	_, err := run(t, j)
	if errorType(err) != fault.User || !strings.Contains(err.Error(), "20 MiB") {
		t.Errorf("got %v, want a user error that names the limit", err)
	}
	if left := names(t, dir); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("a full disk takes a file system of its own: mount: %v", err)
	}
	defer func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	_, err := run(t, job(dir, chain(t, slowInput(t), slowChain)))
	if errorType(err) != fault.Infrastructure || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("got %v, want an infrastructure error that says the disk is full", err)
	}
	if left := names(t, dir); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// fileLimit is the variable by which a test bounds the files of a job's child, so that writing fails somewhere.
const fileLimit = "PIPELINES_TEST_FILE_LIMIT"

// limitFiles does what fileLimit says, in the child.
func limitFiles() error {
	bytes, err := strconv.ParseUint(os.Getenv(fileLimit), 10, 64)
	if err != nil {
		return nil // there is no limit
	}
	signal.Ignore(syscall.SIGXFSZ)
	return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: bytes, Max: bytes})
}

// A file that cannot be written, whichever it is, ends the job, and nothing is left or published.
func TestFailedWrite(t *testing.T) {
	input := slowInput(t)
	for name, tt := range map[string]struct {
		limit int
		spec  string
	}{
		"a spill file": {1 << 20, slowChain},
		"the shard":    {5 << 20, slowChain},
		"the dead letter": {64 << 10, `
- {type: ReadFromJson, config: {path: INPUT/*}}
- {type: ValidateWithSchema, config: {schema: {required: [none]}}}
- {type: WriteToJson}
`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			j := job(dir, chain(t, input, tt.spec))
			j.ProfileFile, j.AccountFile = filepath.Join(dir, "profile.json"), filepath.Join(dir, "account.jsonl")
			j.Cache = pipelines.Cache{Dir: filepath.Join(t.TempDir(), "cache"), Limit: 1 << 30}
			_, err := pipelines.Run(t.Context(), childWith(t, fileLimit+"="+strconv.Itoa(tt.limit)), j, nil)
			if errorType(err) != fault.Infrastructure || !strings.Contains(err.Error(), "file too large") {
				t.Errorf("got %v, want an infrastructure error that says a file is too large", err)
			}
			if left := names(t, dir); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
			mustRun(t, j) // with what the cache has of the attempt before
		})
	}
}

// A cache that cannot be written is no reason to fail.
func TestFullCache(t *testing.T) {
	readOnly := filepath.Join(write(t, map[string]string{"file": ""}), "file") // in which no folder can be made, not even by root
	j := job(t.TempDir(), chain(t, write(t, manyFiles(0, 2)), cachedChain))
	j.Cache = pipelines.Cache{Dir: readOnly, Limit: 1 << 30}
	if out := mustRun(t, j); out.Rows.Read != 200 || out.Rows.Reused != 0 {
		t.Errorf("%+v", out.Rows)
	}
}

func TestOutputNotEmpty(t *testing.T) {
	dir := t.TempDir()
	j := job(dir, chain(t, write(t, map[string]string{"in": "{}"}), slowChain))
	if err := os.MkdirAll(filepath.Join(j.OutputDir, "precious"), 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t, j); errorType(err) != fault.Invalid {
		t.Errorf("got %v, want an invalid error", err)
	}
}

// What is wrong with a chain is said before any row is read, with the transform's name.
func TestInvalid(t *testing.T) {
	const read, write1 = "- {type: ReadFromJson, config: {path: INPUT/*}}\n", "- {type: WriteToJson}\n"
	tests := []struct{ name, spec, want string }{
		{"no sink", read, "last transform must write"},
		{"sink in the middle", read + write1 + "- {type: Filter, config: {keep: 'true'}}\n", "WriteToJson"},
		{"source in the middle", read + "- {type: ReadFromJson, name: b, config: {path: x}}\n" + write1, "ReadFromJson"},
		{"unknown type", read + "- {type: Shuffle}\n" + write1, `"Shuffle"`},
		{"same name", read + strings.Repeat("- {type: Filter, config: {keep: 'true'}}\n", 2) + write1, "two transforms are named Filter"},
		{"unknown key", read + "- {type: Filter, name: f, config: {kep: 'true'}}\n" + write1, `"kep"`},
		{"bad expression", read + "- {type: Filter, name: f, config: {keep: 'row.('}}\n" + write1, "transform f (Filter): keep"},
		{"bad schema", read + "- {type: ValidateWithSchema, config: {schema: {type: nonsense}}}\n" + write1, "schema"},
		{"remote schema", read + "- {type: ValidateWithSchema, config: {schema: {$ref: 'https://example.org/s.json'}}}\n" + write1, "example.org"},
		{"shares", read + "- {type: Split, config: {key: row.a, parts: {a: 0.5, b: 0.4}}}\n" + write1, "90%"},
		{"part's name", read + "- {type: Split, config: {key: row.a, parts: {../a: 1}}}\n" + write1, `"../a"`},
		{"after split", read + "- {type: Split, config: {key: row.a, parts: {a: 1}}}\n- {type: Filter, config: {keep: 'true'}}\n" + write1, "Split"},
		{"method", read + "- {type: Deduplicate, config: {method: vague}}\n" + write1, `"vague"`},
		{"mask", read + "- {type: MaskPII, config: {fields: [a], kinds: [shoe_size]}}\n" + write1, `"shoe_size"`},
		{"no fields", read + "- {type: NormalizeText, config: {fields: []}}\n" + write1, "fields"},
	}
	input := write(t, map[string]string{"in": "{}"})
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			_, err := run(t, job(dir, chain(t, input, test.spec)))
			if errorType(err) != fault.Invalid || !strings.Contains(fmt.Sprint(err), test.want) {
				t.Errorf("got %v, want an invalid error with %q", err, test.want)
			}
			if left := names(t, dir); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

func TestNoInput(t *testing.T) {
	_, err := run(t, job(t.TempDir(), chain(t, t.TempDir(), slowChain)))
	if errorType(err) != fault.User || !strings.Contains(err.Error(), "no file matches") {
		t.Errorf("got %v, want a user error", err)
	}
}
