package integration

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/connect/state"
)

const logsPipeline = `sluice: pipeline/v1
name: said
params: {dir: {type: string}}
steps:
  say:
    run:
      script: |
        if mkdir "$DIR/begun" 2> /dev/null; then echo first; echo "to stderr" >&2; printf "no end"; exec sleep 600; fi
        echo second
    env: {DIR: "${params.dir}"}
  quiet: {needs: [say], run: {script: "true"}}
  each:
    needs: [say]
    foreach: '["a", "b"]'
    run: {command: [echo, "item ${item}"]}
  measure:
    needs: [each]
    evaluate: {command: [sh, -c, 'echo measured; echo "{\"score\":1}" > "$SLUICE_METRICS"'], metrics: [score]}
`

// TestLogsOnCluster: a client that shares only the store with the workers gets the logs of all their programs: while they run, with what an
// attempt has printed before its worker was killed, and afterwards.
func TestLogsOnCluster(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, "program")
	write(t, filepath.Join(s.project, "pipeline.yaml"), logsPipeline)
	s.env = append(s.env, state.StoreVariable+"=file://"+filepath.Join(s.state, "store"))
	s.serve()
	one := s.work("one")
	one.awaits("Ctrl-C stops")
	run := s.start("run", "pipeline.yaml", "-e", "environment.yaml", "-p", "dir="+s.dir, "--detach").expect(0).runID()
	client := []string{"logs", run, "--state", filepath.Join(s.dir, "client")}
	follower := s.start(append(client, "-f")...)
	follower.awaits("to stderr")
	kill(t, one.cmd.Process.Pid, syscall.SIGKILL)
	s.work("two")
	follower.expect(0)
	want := `==> say attempt-1 <==
first
to stderr
no end
==> say attempt-2 <==
second
==> each.0 attempt-1 <==
item a
==> each.1 attempt-1 <==
item b
==> measure attempt-1 <==
measured
`
	for _, c := range []*command{follower, s.start(client...).expect(0)} {
		if diff := cmp.Diff(want, c.stdout.String()); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.cmd.Args, diff)
		}
	}
	s.start("logs", run, "quiet", "--state", filepath.Join(s.dir, "client")).expect(0).says("step `quiet` of " + run + " has written no output")
}
