package integration

import (
	"encoding/json"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
)

// deaf is the address of a port that takes connections, and never answers.
func deaf(t *testing.T) string {
	t.Helper()
	var listen net.ListenConfig
	l, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// breakAgents makes the first agents of the sandbox start by a line of shell, which ends with "exec", and the others as they are.
func (s *sandbox) breakAgents(first int, line string) {
	s.t.Helper()
	path := filepath.Join(s.dir, "agent")
	script := fmt.Sprintf("#!/bin/sh\nfor n in $(seq %d); do\n\tif mkdir '%s'/broken-$n 2>/dev/null; then %s '%s' \"$@\"; fi\ndone\nexec '%[4]s' \"$@\"\n", first, s.dir, line, agentPath)
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		s.t.Fatal(err)
	}
	s.env = append(s.env, "SLUICE_AGENT="+path)
}

// wantBroken checks that the newest run's step fit was done by the second gang, that the first cost something though it never started, and that
// nobody was charged.
func (s *sandbox) wantBroken(reason string) {
	s.t.Helper()
	run := s.show()
	var out spec.TrainOutput
	run.Steps["fit"].decode(s.t, &out)
	var ends []spec.GenerationEnd
	for _, g := range out.Generations {
		ends = append(ends, g.End)
	}
	if diff := cmp.Diff([]spec.GenerationEnd{spec.EndNodeLost, spec.EndFinished}, ends); diff != "" {
		s.t.Fatalf("ends of generations (-want +got):\n%s", diff)
	}
	if why := out.Generations[0].Reason; !strings.Contains(why, reason) {
		s.t.Errorf("the first generation ended because %q, want %q", why, reason)
	}
	never := out.Outcomes.NeverStarted
	if first := out.Generations[0].CostUSD; never.CostUSD == nil || first <= 0 || math.Abs(*never.CostUSD-first) > 0.01 {
		s.t.Errorf("the gang that never started cost %+v, in the ledger %+v", out.Generations[0], out.Outcomes)
	}
	if n := run.Steps["fit"].Attempts.Total; n != 1 {
		s.t.Errorf("%d attempts were charged", n)
	}
}

const networkPipeline = `steps:
  fit:
    train: {command: [sh, -c, 'echo trained; echo "{\"step\": 1}" >> "$SLUICE_METRICS"'], pool: one, total_steps: 1}
    retry: {attempts: 1}
`

// TestNodeWithoutTemporal: a node whose agent cannot reach Temporal is given up, which is charged to nobody and told to who follows the logs as
// it happens; another one does the work.
func TestNodeWithoutTemporal(t *testing.T) {
	for name, line := range map[string]string{
		"it does not answer": "SLUICE_TEMPORAL_ADDRESS=%s exec",
		"no network at all":  "exec unshare --net",
	} {
		t.Run(name, func(t *testing.T) {
			s := onPool(t, "{local: {nodes: 1}, usd_per_hour: {on_demand: 3600}}", strings.Replace(networkPipeline, "echo trained", `until [ -e "$MARKS/go" ]; do sleep 0.05; done; echo trained`, 1)+
				"    secrets: {MARKS: marks}\n")
			if strings.Contains(line, "%s") {
				line = fmt.Sprintf(line, deaf(t))
			} else if err := exec.Command("unshare", "--net", "true").Run(); err != nil {
				t.Skipf("a network cannot be taken away here: %v", err)
			}
			s.breakAgents(1, line)
			c := s.run()
			run := c.runID()
			follower, programs := s.start("logs", run, "fit", "-f"), s.start("logs", run, "-f", "--format", "json")
			for _, told := range []string{"generation 1 ended at step 0 on ", "connect to Temporal", "fit: generation 2 begins"} {
				follower.awaits(told)
			}
			for _, told := range []string{`"generation":1,"end":"node_lost"`, `"generation":2,"begins":true`} {
				programs.awaits(told)
			}
			write(t, filepath.Join(s.dir, "go"), "")
			c.expect(0)
			follower.expect(0).says("trained")
			programs.expect(0)
			if n := strings.Count(follower.stdout.String(), "generation 1 ended"); n != 1 {
				t.Errorf("the end of generation 1 is told %d times", n)
			}
			s.wantBroken("connect to Temporal")
		})
	}
}

// TestNoNodeReachesTemporal: after some nodes in a row the step fails, and says why.
func TestNoNodeReachesTemporal(t *testing.T) {
	if err := exec.Command("unshare", "--net", "true").Run(); err != nil {
		t.Skipf("a network cannot be taken away here: %v", err)
	}
	s := onPool(t, "{local: {nodes: 1}, usd_per_hour: {on_demand: 3600}}", networkPipeline)
	s.breakAgents(100, "exec unshare --net")
	if code := s.run().wait(); code == 0 {
		t.Error("the run succeeded")
	}
	step := s.show().Steps["fit"]
	for _, part := range []string{"the nodes were lost 5 times in a row before the ranks ran", "connect to Temporal"} {
		if !strings.Contains(step.Error, part) {
			t.Errorf("error %q does not say %q", step.Error, part)
		}
	}
	var out spec.TrainOutput
	if err := json.Unmarshal(step.Outputs, &out); err != nil || len(out.Generations) != 5 || out.CostUSD <= 0 || out.Outcomes.Overhead.NodeSeconds > 0 {
		t.Errorf("the account is %+v, %v, want five gangs that never started", out, err)
	}
	s.start("logs").expect(0).says("fit: generation 5 ended at step 0")
}
