package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sluiceml/sluice/internal/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// python is a program that runs a script for each line, which is `row`, and prints what is left in it unless that is None.
func python(body string) []string {
	return []string{"-c", "import json, os, sys, time\nfor line in sys.stdin:\n    row = json.loads(line)\n" +
		"    " + strings.ReplaceAll(body, "\n", "\n    ") + "\n    if row is not None: print(json.dumps(row))"}
}

const unbuffered = "PYTHONUNBUFFERED=1"

func newPool(t *testing.T, args []string, env ...string) *Pool {
	t.Helper()
	return NewPool(t.Context(), Spec{
		Path: "python3", Args: args, Env: append(os.Environ(), env...), MaxRestarts: 10,
	})
}

// feed takes the rows {"n": 0}, {"n": 1}, ... through a feed and returns their answers, each in one word.
func feed(t *testing.T, pool *Pool, rows int) (map[int]string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	answers := map[int]string{}
	f := pool.Feed()
	defer f.Close()
	for n := range rows {
		err := f.Send(ctx, fmt.Appendf(nil, `{"n":%d}`, n), func(a Answer) error {
			if answers[n] != "" {
				t.Errorf("the row %d has a second answer", n)
			}
			answers[n] = short(a)
			return nil
		})
		if err != nil {
			return answers, err
		}
	}
	return answers, f.Flush(ctx)
}

func short(a Answer) string {
	switch {
	case a.Drop != "":
		return "drop " + a.Drop
	case a.Reject != "":
		return "reject " + a.Reject
	}
	text, err := json.Marshal(a.Row)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// expect is what feed returns when each row is answered with itself and n times ten, but for some.
func expect(rows int, but map[int]string) map[int]string {
	want := map[int]string{}
	for n := range rows {
		want[n] = fmt.Sprintf(`{"n":%d,"t":%d}`, n, 10*n)
	}
	maps.Copy(want, but)
	return want
}

const times = `row["t"] = row["n"] * 10`

func TestAnswers(t *testing.T) {
	tests := []struct {
		name, body string
		rows       int
		but        map[int]string
	}{
		{"each row", times, 3000, nil},
		{"no row", times, 0, nil},
		{"dropped and rejected", times + "\n" + `if row["n"] == 1: row = {"_row": row["_row"], "_drop": "odd"}
elif row["n"] == 2: row["_reject"] = "bad"`, 4, map[int]string{1: "drop odd", 2: "reject bad"}},
		{"no answer", times + "\n" + `if row["n"] == 5: row = None`, 9, map[int]string{5: "reject no_answer"}},
		{"crashes", times + "\n" + `if row["n"] in (200, 201): os._exit(3)`, 400, map[int]string{200: "reject crashed", 201: "reject crashed"}},
		{"is killed", times + "\n" + `if row["n"] == 0: os.kill(os.getpid(), 9)`, 3, map[int]string{0: "reject crashed"}},
		{"ends early", times + "\n" + `if row["_row"] == 100: print(json.dumps(row)); sys.exit()`, 950, nil},
		{"ends early without an answer", times + "\n" + `if row["n"] == 30: sys.exit()`, 50, map[int]string{30: "reject no_answer"}},
		{"a fraction of zero", times + "\n" + `row["_row"] = float(row["_row"])`, 3, nil},
	}
	for _, buffered := range []bool{false, true} {
		for _, tt := range tests {
			t.Run(fmt.Sprintf("%s, buffered %t", tt.name, buffered), func(t *testing.T) {
				t.Parallel()
				env := unbuffered
				if buffered {
					env = "PYTHONUNBUFFERED="
				}
				pool := newPool(t, python(tt.body), env)
				got, err := feed(t, pool, tt.rows)
				if err := errors.Join(err, pool.Close()); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(expect(tt.rows, tt.but), got); diff != "" {
					t.Errorf("answers (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// Rows come back in any order.
func TestReversed(t *testing.T) {
	t.Parallel()
	pool := newPool(t, []string{"-c", `
import json, sys
for line in reversed(sys.stdin.readlines()):
    row = json.loads(line)
    row["t"] = row["n"] * 10
    print(json.dumps(row))
`})
	got, err := feed(t, pool, 10_000) // more than the window has
	if err := errors.Join(err, pool.Close()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(expect(10_000, nil), got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
}

// A process that answers what it has is kept from feed to feed, and one that only the end of its input makes speak is not waited for
// a second time.
func TestKept(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		env       string
		processes int
	}{{unbuffered, 1}, {"PYTHONUNBUFFERED=", 3}} {
		starts := filepath.Join(t.TempDir(), "starts")
		body := python(times)
		body[1] = `open("` + starts + `", "a").write("x")` + "\n" + body[1]
		pool := newPool(t, body, tt.env)
		for range 3 {
			if _, err := feed(t, pool, 10); err != nil {
				t.Fatal(err)
			}
		}
		if err := pool.Close(); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(starts)
		if err != nil || len(text) != tt.processes {
			t.Errorf("%s: %d processes, want %d (%v)", tt.env, len(text), tt.processes, err)
		}
		if withholds := tt.processes == 3; pool.withholds != withholds {
			t.Errorf("%s: known to withhold its answers: %t", tt.env, pool.withholds)
		}
	}
}

func TestFaults(t *testing.T) {
	tests := []struct{ name, body, want string }{
		{"no JSON", `print("loading the model")`, `that is not a JSON object`},
		{"NaN", `row["n"] = float("nan")`, `NaN`},
		{"no number", `del row["_row"]`, "without `_row`"},
		{"a foreign number", `row["_row"] += 1000`, "1001"},
		{"an answer twice", `print(json.dumps(row))`, "already answered"},
		{"a rule that is no word", `row["_drop"] = True`, "_drop must consist of letters"},
		{"a reason of many words", `row["_reject"] = "a b"`, "_reject must consist of letters"},
		{"a rule for each row", `for i in range(101): print(json.dumps({"_row": row["_row"] + i, "_drop": f"r{i}"}))`, "more than 100 different"},
		{"both", `row["_drop"] = row["_reject"] = "a"`, "not both"},
		{"a long line", `row["n"] = "x" * (25 << 20)`, "more than 24 MiB"},
		{"a number that is text", `row["_row"] = str(row["_row"])`, "must be the integer"},
		{"exits badly when all is answered", `if row["n"] == 0: import atexit; atexit.register(lambda: (print("not saved", file=sys.stderr, flush=True), os._exit(3)))
row["t"] = 1`, "answered every row and then exited with exit code 3: not saved"},
		{"never answers", `sys.exit("no model")`, "without ever answering a row: no model"},
		{"dies all the time", "if row[\"n\"]: os._exit(1)", "more than max_restarts, 10"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			pool := newPool(t, python(tt.body), unbuffered)
			_, err := feed(t, pool, 200)
			err = errors.Join(err, pool.Close())
			if fault.TypeOf(err) != fault.User || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want a fault with %q", err, tt.want)
			}
		})
	}
}

func TestNotInstalled(t *testing.T) {
	pool := NewPool(t.Context(), Spec{Path: "/nowhere/to/be/found"})
	_, err := feed(t, pool, 1)
	if fault.TypeOf(err) != fault.User || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("got %v", err)
	}
}

// A program that somebody kills is started again, and no row is lost. The first process waits at a row in the middle for its end,
// which so comes before the last answer however late it comes.
func TestKilled(t *testing.T) {
	t.Parallel()
	pidFile := filepath.Join(t.TempDir(), "pid")
	body := python(times + `
if row["n"] == 0: open("` + pidFile + `", "w").write(str(os.getpid()))
if row["n"] == 500 and open("` + pidFile + `").read() == str(os.getpid()): time.sleep(60)`)
	pool := newPool(t, body, unbuffered)
	var once sync.Once
	ctx := t.Context()
	f := pool.Feed()
	got := map[int]string{}
	for n := range 1000 {
		err := f.Send(ctx, fmt.Appendf(nil, `{"n":%d}`, n), func(a Answer) error {
			got[n] = short(a)
			once.Do(func() {
				text, err := os.ReadFile(pidFile)
				if err != nil {
					t.Error(err)
				}
				var pid int
				if _, err := fmt.Sscan(string(text), &pid); err != nil {
					t.Error(err)
				}
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Error(err)
				}
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(expect(1000, nil), got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if pool.deaths != 1 {
		t.Errorf("%d deaths, want 1", pool.deaths)
	}
}

// The end of the context ends the program, whatever it does.
func TestCanceled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	pool := NewPool(ctx, Spec{Path: "python3", Args: python("cancel.bogus if False else time.sleep(60)")})
	f := pool.Feed()
	if err := f.Send(ctx, []byte(`{}`), func(Answer) error { return nil }); err != nil {
		t.Fatal(err)
	}
	child := f.proc.child
	cancel(stop)
	if err := f.Flush(ctx); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
	f.Close()
	select {
	case <-child.Done():
	default:
		t.Error("the program lives on")
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
}

// Several feeds at once share what is known, and not the processes.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	pool := newPool(t, python(times), unbuffered)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			got, err := feed(t, pool, 500)
			if diff := cmp.Diff(expect(500, nil), got); diff != "" || err != nil {
				t.Errorf("%v, answers (-want +got):\n%s", err, diff)
			}
		})
	}
	all.Wait()
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	if left := slices.Clone(pool.idle); len(left) > 0 {
		t.Errorf("%d processes are left", len(left))
	}
}
