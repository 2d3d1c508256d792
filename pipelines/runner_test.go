package pipelines_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/pipelines"
	"github.com/sluiceml/sluice/pipelines/flink"
)

// What Flink makes of the rows is, to the byte, what prism does, and so is the account.
func TestFlink(t *testing.T) {
	needFlink(t)
	content := map[string]string{}
	for i, row := range manyRows(3000) {
		content[string(rune('a'+i%7))] += row
	}
	input := write(t, content)
	clean := func(r pipelines.Runner) (dsl.CleanOutput, string) {
		dir := t.TempDir()
		j := job(dir, chain(t, input, dedupAndSplit))
		j.ProfileFile = filepath.Join(dir, "profile.json")
		j.Runner = r
		return mustRun(t, j), treeDigest(t, dir)
	}
	want, wantDigest := clean(pipelines.Runner{})
	got, gotDigest := clean(pipelines.Runner{Flink: &dsl.FlinkRunner{}})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("account (-prism +flink):\n%s", diff)
	}
	if gotDigest != wantDigest {
		t.Errorf("digest %s on Flink, %s on prism", gotDigest, wantDigest)
	}
}

// needFlink skips the test where Flink's job server is not there, which `make flink` fetches. CI must have it.
func needFlink(t *testing.T) {
	t.Helper()
	jars, err := flink.DefaultJars()
	_, noJars := os.Stat(jars)
	_, noJava := exec.LookPath("java")
	if err := errors.Join(err, noJars, noJava); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

// A cleaning that is canceled is canceled on the cluster, and leaves neither files nor processes.
func TestFlinkCanceled(t *testing.T) {
	needFlink(t)
	dir := t.TempDir()
	j := job(dir, chain(t, slowInput(t), slowChain))
	j.Runner = pipelines.Runner{Flink: &dsl.FlinkRunner{}}
	err := midRun(t, j, func(cancel context.CancelFunc) {
		if len(jobServers(t, dir)) != 1 {
			t.Error("no job server runs")
		}
		cancel()
	})
	if errorType(err) != pipelines.TypeCanceled {
		t.Errorf("got %v, want a canceled error", err)
	}
	nothingLeft(t, dir)
}

func TestFlinkCrash(t *testing.T) {
	needFlink(t)
	dir := t.TempDir()
	j := job(dir, chain(t, slowInput(t), slowChain))
	j.Runner = pipelines.Runner{Flink: &dsl.FlinkRunner{}}
	err := midRun(t, j, func(context.CancelFunc) {
		for _, pid := range jobServers(t, dir) {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}
	})
	if errorType(err) != pipelines.TypeInfrastructure || !strings.Contains(err.Error(), "Flink's job server has ended: signal 9") {
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
