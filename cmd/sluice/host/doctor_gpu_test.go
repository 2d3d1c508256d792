package host

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/cmd/sluice/view"
	"github.com/sluiceml/sluice/serving/onnx"
	"github.com/sluiceml/sluice/training/gpu"
)

func TestDoctorListsGPUs(t *testing.T) {
	dir := t.TempDir()
	for name, prints := range map[string]string{
		"two": `{"source":"nvml","driver":"570.1","gpus":[` +
			`{"index":0,"uuid":"GPU-a","model":"NVIDIA A100","memory":42949672960,"numa":1,"mig":true,"instances":[{"uuid":"MIG-a"}],"recovery":"none"},` +
			`{"index":1,"uuid":"GPU-b","model":"NVIDIA L4","memory":24152899584,"numa":-1,"recovery":"reset"}],"lost":[{"index":2,"reason":"open it: GPU is lost"}]}`,
		"smi":  `{"source":"nvidia-smi","driver":"570.1","gpus":[{"index":0,"uuid":"GPU-a","model":"NVIDIA L4","memory":24152899584,"numa":-1}]}`,
		"none": `{"source":"nvml","absent":"no NVIDIA driver: its library libnvidia-ml.so.1 is not installed"}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho '"+prints+"'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "fails"), []byte("#!/bin/sh\necho 'the driver hangs' >&2\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	reset := "it needs a reset according to the driver, and is not used until then: nvidia-smi --gpu-reset"
	for name, want := range map[string][]view.Finding{
		"two": {
			{Name: "GPUs", Detail: "2 NVIDIA GPUs, driver 570.1"},
			{Name: "GPU 0", Detail: "NVIDIA A100, 40 GiB, GPU-a, NUMA node 1, 1 MIG instance"},
			{Name: "GPU 1", State: view.Note, Detail: "NVIDIA L4, 22 GiB, GPU-b", Help: reset},
			{
				Name: "GPU 2", State: view.Note, Detail: "does not answer: open it: GPU is lost",
				Help: "see `nvidia-smi` and the kernel's log; usually the machine must be restarted",
			},
		},
		"smi": {
			{
				Name: "GPUs", State: view.Note, Detail: "1 NVIDIA GPU, driver 570.1",
				Help: "sluice-gpu is missing, so links between GPUs, MIG instances and XID errors are not detected: it is built with sluice if there is a " +
					"C compiler; put it beside sluice, or set its path with $SLUICE_GPU",
			},
			{Name: "GPU 0", Detail: "NVIDIA L4, 22 GiB, GPU-a"},
		},
		"fails": {{
			Name: "GPUs", State: view.Note, Detail: "list the GPUs: " + filepath.Join(dir, "fails") + " ended with exit code 3: the driver hangs",
			Help: "`train` steps with `resources: {gpu: n}` cannot start on local pools",
		}},
		"none": {{Name: "GPUs", Detail: "none: no NVIDIA driver: its library libnvidia-ml.so.1 is not installed"}},
	} {
		t.Setenv(gpu.HelperVariable, filepath.Join(dir, name))
		if diff := cmp.Diff(want, checkGPUs(t.Context())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestDoctorWithoutLibrary(t *testing.T) {
	t.Setenv(onnx.LibraryVariable, filepath.Join(t.TempDir(), "nothing"))
	want := "`compile` steps and embedded targets need it: `pip install onnxruntime` in a .venv in the folder where Sluice is started, or above; " +
		"or set its path with $SLUICE_ONNXRUNTIME"
	if f := checkLibrary(view.Missing); f.State != view.Missing || f.Help != want {
		t.Errorf("got %+v, want the help %q", f, want)
	}
}
