package compile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
)

// killed is loaded by the project's Python before anything else. It kills the process in the middle of quantising, as the kernel does
// that is out of memory, when a process of the tools has left for another session.
const killed = `
import os, pathlib, signal, subprocess, sys
import onnxruntime.quantization


def quantize(source, target, **_):
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    assert pathlib.Path(source).is_file()
    pathlib.Path(os.environ["PROCESSES"]).write_text(f"{os.getpid()} {child.pid}")
    print("quantising", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


onnxruntime.quantization.quantize_dynamic = quantize
`

// TestKilledWhileQuantising: it is the machine's trouble, not the model's, so that the step is tried again; no process is left, and
// what it wrote is below the job's folder, which the step removes.
func TestKilledWhileQuantising(t *testing.T) {
	hook, processes, temporary := t.TempDir(), filepath.Join(t.TempDir(), "processes"), t.TempDir()
	if err := os.WriteFile(filepath.Join(hook, "sitecustomize.py"), []byte(killed), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PYTHONPATH", hook)
	t.Setenv("PROCESSES", processes)
	t.Setenv("TMPDIR", temporary)
	job := newJob(t, onnxtest.MLP, samples(t, 10, vectors), map[string]spec.Variant{"int8": {ONNX: &spec.ONNXVariant{Precision: "int8"}}})
	_, err := Run(t.Context(), job)
	if fault, ok := errors.AsType[*ModelError](err); ok || err == nil || !strings.Contains(err.Error(), "build variant int8") ||
		!strings.Contains(err.Error(), "signal 9") || !strings.Contains(err.Error(), "quantising") {
		t.Errorf("got %v (ModelError: %v), want that the tools were killed", err, fault)
	}
	raw, err := os.ReadFile(processes)
	if err != nil {
		t.Fatal(err)
	}
	for field := range strings.FieldsSeq(string(raw)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is left: %v", pid, err)
		}
	}
	if _, err := os.Stat(filepath.Join(job.Dir, "int8", "model.onnx")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a variant that was not finished is there: %v", err)
	}

	t.Setenv("PYTHONPATH", "")
	job.Dir = t.TempDir()
	if _, err := Run(t.Context(), job); err != nil {
		t.Errorf("the next attempt: %v", err)
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) != 0 { // ONNX Runtime's telemetry would leave a file too
		t.Errorf("left in the folder for temporary files: %v, %v", left, err)
	}
}
