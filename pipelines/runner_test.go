package pipelines_test

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/testing/rig"
	"github.com/sluiceml/sluice/pipelines"
	"github.com/sluiceml/sluice/pipelines/meter"
	"github.com/sluiceml/sluice/pipelines/runner"
)

// What Flink makes of the rows is, to the byte, what the child process does, and so is the account.
func TestFlink(t *testing.T) {
	needFlink(t)
	content := map[string]string{}
	for i, row := range manyRows(3000) {
		content[string(rune('a'+i%7))] += row
	}
	input := write(t, content)
	chains := map[string]string{"cuts": dedupAndSplit, "everything": `
- {type: ReadFromJson, config: {path: INPUT/*}}
- {type: MapToFields, name: words, config: {append: true, fields: {text: 'row.text + " " + row.folder + " and more of it"'}}}
- {type: Deduplicate, name: near, config: {method: minhash, fields: [text], order_by: row.when, ngram: 2, bands: 20, rows: 2, threshold: 0.6}}
- {type: Combine, config: {group_by: [when], combine: {n: {fn: count}, ids: {value: double(row.id), fn: mean}}}}
- {type: WriteToCsv, config: {shards: 2}}
`}
	for name, text := range chains {
		t.Run(name, func(t *testing.T) {
			clean := func(r pipelines.Runner) (spec.CleanOutput, string) {
				dir := t.TempDir()
				j := job(dir, chain(t, input, text))
				j.ProfileFile = filepath.Join(dir, "profile.json")
				j.AccountFile = filepath.Join(dir, "account.jsonl")
				j.Runner = r
				return mustRun(t, j), treeDigest(t, dir)
			}
			want, wantDigest := clean(pipelines.Runner{})
			got, gotDigest := clean(pipelines.Runner{Flink: &spec.FlinkRunner{}})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("account (-inprocess +flink):\n%s", diff)
			}
			if gotDigest != wantDigest {
				t.Errorf("digest %s on Flink, %s in the process", gotDigest, wantDigest)
			}
			if want.Rows.Kept == 0 || want.Rows.Dropped == 0 {
				t.Errorf("nothing to compare: %+v", want.Rows)
			}
		})
	}
}

// needFlink skips the test where Flink's job server is not there, which `make flink` fetches.
func needFlink(t *testing.T) {
	t.Helper()
	jars, err := runner.DefaultJars()
	_, noJars := os.Stat(jars)
	_, noJava := exec.LookPath("java")
	if err := errors.Join(err, noJars, noJava); err != nil {
		rig.Skip(t, err)
	}
}

// Workers in processes of their own, as on a cluster, do the same, and tell of their progress and of their errors.
func TestWorkers(t *testing.T) {
	needFlink(t)
	_, port, err := net.SplitHostPort(startCluster(t))
	if err != nil {
		t.Fatal(err)
	}
	cluster := pipelines.Runner{Flink: &spec.FlinkRunner{Master: "LOCALHOST:" + port, Parallelism: 2}} // which is not taken for this machine
	input := write(t, map[string]string{"a": strings.Join(manyRows(1500), ""), "b": "{\n"})
	clean := func(r pipelines.Runner, text string) (spec.CleanOutput, meter.Progress, string, error) {
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		j := job(dir, chain(t, input, text))
		j.Runner = r
		var last meter.Progress
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		out, err := pipelines.Run(ctx, exe, j, func(p meter.Progress) { last = p })
		return out, last, treeDigest(t, dir), err
	}
	t.Run("same", func(t *testing.T) {
		want, wantProgress, wantDigest, err := clean(pipelines.Runner{}, dedupAndSplit)
		if err != nil {
			t.Fatal(err)
		}
		got, progress, digest, err := clean(cluster, dedupAndSplit)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("account (-inprocess +cluster):\n%s", diff)
		}
		if digest != wantDigest {
			t.Errorf("digest %s on the cluster, %s in the process", digest, wantDigest)
		}
		if progress.Read == 0 || progress.Read > wantProgress.Read {
			t.Errorf("the last progress is %+v, in the process %+v", progress, wantProgress)
		}
	})
	t.Run("error", func(t *testing.T) {
		_, _, _, err := clean(cluster, `
- {type: ReadFromJson, config: {path: INPUT/a}}
- {type: ValidateWithSchema, name: strict, config: {schema: {required: [nothing]}, error_handling: {threshold: 0.1}}}
- {type: WriteToJson}
`)
		if errorType(err) != fault.User || !strings.HasPrefix(err.Error(), "transform strict rejected") {
			t.Errorf("got %v, want a user error of the transform", err)
		}
	})
}

// What workers of a cluster could only be given by the graph, which others may read, is refused.
func TestClusterRefuses(t *testing.T) {
	input := write(t, map[string]string{"in": "{}"})
	tests := []struct{ name, transform, want string }{
		{"secret", "{type: Filter, config: {keep: 'true'}}", "secrets PII_KEY"},
		{"program", "{type: Exec, name: tag, config: {command: [cat]}}", "transform tag: a program must run on the machine"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			j := job(t.TempDir(), chain(t, input, "[{type: ReadFromJson, config: {path: INPUT/*}}, "+test.transform+", {type: WriteToJson}]"))
			j.Runner = pipelines.Runner{Flink: &spec.FlinkRunner{Master: "flink.example.com:8081"}}
			j.Programs.Env = os.Environ()
			if test.name == "secret" {
				j.Secrets = map[string]string{"PII_KEY": "x"}
			}
			if _, err := run(t, j); errorType(err) != fault.Invalid || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an invalid error with %q", err, test.want)
			}
		})
	}
}

// A cleaning that is canceled is canceled on the cluster, and leaves neither files nor processes.
func TestFlinkCanceled(t *testing.T) {
	needFlink(t)
	dir := t.TempDir()
	j := job(dir, chain(t, heldInput(t), slowChain))
	j.Runner = pipelines.Runner{Flink: &spec.FlinkRunner{}}
	err := midRun(t, j, func(cancel context.CancelFunc) {
		if len(jobServers(t, dir)) != 1 {
			t.Error("no job server runs")
		}
		cancel()
	})
	if errorType(err) != fault.Canceled {
		t.Errorf("got %v, want a canceled error", err)
	}
	nothingLeft(t, dir)
}

func TestFlinkCrash(t *testing.T) {
	needFlink(t)
	dir := t.TempDir()
	j := job(dir, chain(t, heldInput(t), slowChain))
	j.Runner = pipelines.Runner{Flink: &spec.FlinkRunner{}}
	err := midRun(t, j, func(context.CancelFunc) {
		for _, pid := range jobServers(t, dir) {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}
	})
	if errorType(err) != fault.Infrastructure || !strings.Contains(err.Error(), "the Flink job server has exited: signal 9") {
		t.Errorf("got %v, want an infrastructure error that says the job server was killed", err)
	}
	nothingLeft(t, dir)
}

// nothingLeft demands that neither files nor a job server are left of a job.
func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	if left := names(t, dir); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	if pids := jobServers(t, dir); len(pids) > 0 {
		t.Errorf("job servers still run: %d", pids)
	}
}

// jobServers returns the processes of the job servers of jobs in a folder.
func jobServers(t *testing.T, dir string) []int {
	t.Helper()
	var pids []int
	for _, path := range glob(t, "/proc/[0-9]*/cmdline") {
		command, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(command), "-Djava.io.tmpdir="+dir) || !strings.Contains(string(command), "\x00-cp\x00") {
			continue
		}
		if exe, err := os.Readlink(filepath.Join(filepath.Dir(path), "exe")); err != nil || filepath.Base(exe) != "java" {
			continue // its keeper
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}
