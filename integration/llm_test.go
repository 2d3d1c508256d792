package integration

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
)

// TestLLM runs the example of a language model: one is released, and one that is slow to say its first word is taken back.
func TestLLM(t *testing.T) {
	t.Parallel()
	s := copyProject(t, "../examples/llm")
	s.edit("environment.yaml", "port: 8092", fmt.Sprintf("port: %d", s.port))
	up := s.start("up")
	up.awaits("up")
	users := exec.CommandContext(t.Context(), "python3", "ask.py", fmt.Sprintf("http://127.0.0.1:%d", s.port))
	users.Dir = s.project
	if err := users.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = users.Process.Kill()
		_ = users.Wait()
	}()
	s.run().expect(0)
	slow := s.run("order=3", "think=0.2").expect(4)
	var out spec.RolloutOutput
	s.show(slow.runID()).Steps["ship"].decode(t, &out)
	if out.Version != "2" || out.Previous != "1" || !strings.Contains(out.Reason, "time to the first token") {
		t.Errorf("%+v", out)
	}
	kill(t, up.cmd.Process.Pid, syscall.SIGINT)
	up.expect(0)
}
