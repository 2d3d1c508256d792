// Package trtexectest stands in for trtexec, and for nvidia-smi, where there is no TensorRT and no GPU. It takes the flags that trtexec
// of a version documents and refuses all others, and writes the files that it documents. Its engines are ONNX models with a header, which
// it runs on ONNX Runtime, so that what they put out is what the graph says; of TensorRT's own arithmetic it shows nothing.
package trtexectest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Variable names the environment variable that has a test binary be trtexec, of the version that it holds.
const Variable = "SLUICE_TEST_TRTEXEC"

// Options say what is stood in for. The zero value has no GPU.
type Options struct {
	Version           string // of TensorRT: 10.3.0
	GPU               string
	ComputeCapability string
	Driver            string
	// Instance is the profile of MIG's instance of the GPU, such as 3g.20gb; empty where the GPU is whole.
	Instance string
}

// L4 is a machine with one GPU.
func L4(version string) Options {
	return Options{Version: version, GPU: "NVIDIA L4", ComputeCapability: "8.9", Driver: "550.54.15"}
}

// Install puts trtexec and nvidia-smi first in PATH until the test ends. The test's TestMain calls Main. It returns the file in which
// each call of trtexec leaves a line with its flags.
func Install(t testing.TB, o Options) (calls string) {
	t.Helper()
	dir := t.TempDir()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	calls = filepath.Join(dir, "calls")
	write(t, filepath.Join(dir, "trtexec"), fmt.Sprintf("echo \"$CUDA_VISIBLE_DEVICES $*\" >>%s\n%s='%s %s' exec %s \"$@\"\n",
		calls, Variable, o.Version, strings.ReplaceAll(o.GPU, " ", "_"), executable))
	write(t, filepath.Join(dir, "nvidia-smi"), smi(o))
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return calls
}

// The UUIDs of the GPU and of its instance.
const (
	gpuUUID      = "GPU-0a1b"
	instanceUUID = "MIG-2c3d"
)

// smi is nvidia-smi for one GPU.
func smi(o Options) string {
	if o.GPU == "" {
		return "echo 'No devices were found'; exit 6\n"
	}
	mode, list := "[N/A]", fmt.Sprintf("GPU 0: %s (UUID: %s)\n", o.GPU, gpuUUID)
	if o.Instance != "" {
		mode, list = "Enabled", list+fmt.Sprintf("  MIG %s     Device  0: (UUID: %s)\n", o.Instance, instanceUUID)
	}
	return fmt.Sprintf(`case "$*" in
-L) echo '%s';;
'--query-gpu=uuid,name,compute_cap,driver_version,mig.mode.current --format=csv,noheader'*)
  case "$3" in ''|--id=0|--id=%s) echo '%s, %s, %s, %s, %s';; *) echo 'No devices were found'; exit 6;; esac;;
*) exit 2;;
esac
`, list, gpuUUID, gpuUUID, o.GPU, o.ComputeCapability, o.Driver, mode)
}

func write(t testing.TB, path, script string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
}

// Main ends this process as trtexec where it was started as such.
func Main() {
	if is := os.Getenv(Variable); is != "" {
		version, gpu, _ := strings.Cut(is, " ")
		os.Exit(run(version, gpu, os.Args[1:]))
	}
}
