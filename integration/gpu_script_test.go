package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluiceml/sluice/serving/onnx"
	"github.com/sluiceml/sluice/training/gpu"
	"github.com/sluiceml/sluice/training/gpu/gputest"
	"github.com/sluiceml/sluice/training/gpu/helper"
)

// TestGPUScript: what `make test-gpu` runs where there is a GPU says, where there is none, that nothing was run, and is no failure. Each check
// that the CPU can rehearse passes, on the GPUs of gputest.
func TestGPUScript(t *testing.T) {
	t.Parallel()
	s := emptySandbox(t, t.TempDir())
	sluice, err := sluicePath()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(s.dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"sluice": sluice, "sluice-agent": agentPath} {
		if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	test := func(env string, args ...string) (map[string]string, string, error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
		defer cancel()
		script := exec.CommandContext(ctx, filepath.Join(pythonEnv(t), "bin", "python3"), append([]string{"-B", "../scripts/test-gpu.py"}, args...)...)
		script.Env = append(s.env, "SLUICE_BIN="+bin, env)
		said, err := script.CombinedOutput()
		_, table, _ := strings.Cut(string(said), "seconds  outcome\n")
		outcomes := map[string]string{}
		for line := range strings.Lines(table) {
			if f := outcome.FindStringSubmatch(line); f != nil {
				outcomes[f[1]] = f[2]
			}
		}
		return outcomes, string(said), err
	}

	absent := filepath.Join(s.dir, helper.Name)
	write(t, absent, "#!/bin/sh\necho '{\"source\": \"nvml\", \"absent\": \"no driver\"}'\n")
	if err := os.Chmod(absent, 0o700); err != nil {
		t.Fatal(err)
	}
	outcomes, said, err := test(gpu.HelperVariable + "=" + absent)
	if err != nil || len(outcomes) != 9 {
		t.Fatalf("without a GPU: %v, %d outcomes\n%s", err, len(outcomes), said)
	}
	for check, got := range outcomes {
		if got != "not run: no GPU: no driver" {
			t.Errorf("without a GPU %s says %q", check, got)
		}
	}

	machine := filepath.Join(s.dir, "gpus")
	if err := os.Mkdir(machine, 0o700); err != nil {
		t.Fatal(err)
	}
	gputest.SetUtilization(t, machine, 4)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	write(t, absent, fmt.Sprintf("#!/bin/sh\n%s='%s' exec '%s' \"$@\"\n", gputest.Variable, machine, self))
	outcomes, said, err = test(gpu.HelperVariable+"="+absent, "--rehearse")
	if err != nil {
		t.Errorf("the rehearsal: %v\n%s", err, said)
	}
	for check, want := range map[string]string{
		"inventory": "passed: 8 GPUs, ", "readings": "passed: 8 GPUs are read", "xid": "not run: ", "idle": "passed: after ", "cuda": "passed: differs from PyTorch by ",
		"tensorrt_rtx": "not run: ", "ddp": "passed: gloo, stopped by notice at step ",
	} {
		if got := outcomes[check]; !strings.HasPrefix(got, want) {
			t.Errorf("the rehearsal of %s says %q, want %q", check, got, want)
		}
	}

	// One that fails is told by the exit code: here there are no programs to check.
	bin = t.TempDir()
	if outcomes, said, err = test(onnx.NoTelemetry+"=1", "--only", "inventory"); err == nil || !strings.HasPrefix(outcomes["inventory"], "FAILED: ") || !strings.Contains(outcomes["inventory"], "run `make build`") {
		t.Errorf("without programs: %v\n%s", err, said)
	}
}

// outcome is a line of the script's table.
var outcome = regexp.MustCompile(`(?m)^(\w+) +[0-9.]+  (.*)$`)
