package onnx

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/internal/testing/rig"
	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
)

// ggml is a provider in a library of its own that needs no GPU.
func ggml(t *testing.T) {
	t.Helper()
	library, err := rig.Program("ggml", "onnxruntime_ggml/lib/libonnxruntime_ggml.so")
	if err != nil {
		rig.Skip(t, err)
	}
	t.Setenv("ORT_GGML_LOG", "error")
	plugins["ggml"] = func() (plugin, error) { return plugin{name: "ggml", library: library}, nil }
	t.Cleanup(func() { delete(plugins, "ggml") })
}

// noGPU skips a test of what a machine lacks.
func noGPU(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/proc/driver/nvidia/version"); err == nil {
		t.Skip("this machine has the driver of a GPU")
	}
}

var rowsOfMLP = func() []oip.Tensor {
	const rows, width = 5, 16
	data := make([]float32, rows*width)
	for i := range data {
		data[i] = float32(math.Sin(float64(i)))
	}
	return []oip.Tensor{{Name: "x", Shape: []int64{rows, width}, Data: data}}
}()

// TestPlugin: a provider in a library of its own computes a model, and answers as the CPU does. Of a list it is the first that can be used, twice.
func TestPlugin(t *testing.T) {
	ggml(t)
	noGPU(t)
	path := filepath.Join(onnxtest.Folder(t, onnxtest.MLP), "model.onnx")
	onCPU, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer onCPU.Close()
	want, err := onCPU.Infer(t.Context(), rowsOfMLP)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the library is registered once
		s, err := OpenWith(path, Options{Providers: []string{TensorRTRTX, CUDA, "ggml", CPU}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Infer(t.Context(), rowsOfMLP)
		if err != nil {
			t.Fatal(err)
		}
		one, other := want[0].Data.([]float32), got[0].Data.([]float32)
		if len(one) != len(other) {
			t.Fatalf("%d numbers, want %d", len(other), len(one))
		}
		for i := range one {
			if math.Abs(float64(one[i]-other[i])) > 0.01 {
				t.Errorf("number %d is %v, by the CPU %v", i, other[i], one[i])
			}
		}
		if slices.Equal(one, other) { // the plugin keeps weights as 16-bit numbers
			t.Error("the CPU has computed it")
		}
		name, refused := s.Provider()
		if name != "ggml" || refused == nil || !strings.Contains(refused.Error(), "provider tensorrt_rtx: ") || !strings.Contains(refused.Error(), "provider cuda: ") {
			t.Errorf("computed by %s, because of %v", name, refused)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := CheckProviders([]string{CUDA, "ggml"}); err != nil {
		t.Errorf("a list with one that can be used: %v", err)
	}
}

// TestProvidersThatAreNotThere: the refusal says what each provider lacks, what it needs, and how to go on without.
func TestProvidersThatAreNotThere(t *testing.T) {
	noGPU(t)
	path := filepath.Join(onnxtest.Folder(t, onnxtest.MLP), "model.onnx")
	for _, tc := range []struct {
		providers []string
		want      []string
	}{
		{[]string{CUDA}, []string{"cannot use the execution provider cuda: ", "set $SLUICE_ONNXRUNTIME", "`provider: [cuda, cpu]`"}},
		{[]string{TensorRT}, []string{"cannot use the execution provider tensorrt: ", "set $SLUICE_ONNXRUNTIME", "`provider: [tensorrt, cpu]`"}},
		{[]string{TensorRTRTX}, []string{"cannot use the execution provider tensorrt_rtx: ", rtxPackage, "libcuda.so.1", "`provider: [tensorrt_rtx, cpu]`"}},
		{[]string{TensorRTRTX, CUDA}, []string{"provider tensorrt_rtx: ", "provider cuda: ", "`provider: [tensorrt_rtx, cuda, cpu]`"}},
	} {
		_, err := OpenWith(path, Options{Providers: tc.providers})
		for _, err := range []error{err, CheckProviders(tc.providers)} {
			if err == nil {
				t.Errorf("%v can be used", tc.providers)
				continue
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v: %v, want %q", tc.providers, err, want)
				}
			}
		}
		s, err := OpenWith(path, Options{Providers: append(tc.providers, CPU)})
		if err != nil {
			t.Errorf("%v before the CPU: %v", tc.providers, err)
			continue
		}
		if name, refused := s.Provider(); name != CPU || refused == nil || strings.Contains(refused.Error(), "stand in") {
			t.Errorf("%v before the CPU: %s because of %v", tc.providers, name, refused)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := CheckProviders(nil); err != nil {
		t.Errorf("the CPU: %v", err)
	}
	if _, err := OpenWith(path, Options{Providers: []string{"quantum"}}); err == nil || !strings.Contains(err.Error(), `no execution provider "quantum"`) {
		t.Errorf("an unknown provider: %v", err)
	}
}

// TestFindRTX: the provider is found beside ONNX Runtime and in the Python environment, and what it needs is in the order in which it must be loaded.
func TestFindRTX(t *testing.T) {
	env := t.TempDir()
	site := filepath.Join(env, "lib", "python3.11", "site-packages")
	dir := filepath.Join(site, rtxFolder)
	t.Setenv(LibraryVariable, "")
	t.Setenv(EnvironmentVariable, env)
	if _, err := findRTX(); err == nil || !strings.Contains(err.Error(), env) {
		t.Errorf("in an empty environment: %v", err)
	}
	// The Python package makes links to its libraries when it is imported.
	names := []string{rtxLibrary, "libcudart.so.13.4.36", "libtensorrt_rtx.so.1", "libtensorrt_rtx.so.1.7.1", "libtensorrt_onnxparser_rtx.so.1.7.1"}
	for _, path := range append(names, filepath.Join("..", "onnxruntime", "capi", "libonnxruntime.so.1.31.1")) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found := func() {
		t.Helper()
		p, err := findRTX()
		if err != nil {
			t.Fatal(err)
		}
		var needs []string
		for _, path := range p.needs {
			needs = append(needs, filepath.Base(path))
		}
		if got := strings.Join(needs, " "); p.library != filepath.Join(dir, rtxLibrary) || got != "libcudart.so.13.4.36 libtensorrt_rtx.so.1.7.1 libtensorrt_onnxparser_rtx.so.1.7.1" {
			t.Errorf("%s needs %s", p.library, got)
		}
	}
	found()
	t.Setenv(EnvironmentVariable, t.TempDir())
	t.Setenv(LibraryVariable, filepath.Join(site, "onnxruntime", "capi", "libonnxruntime.so.1.31.1"))
	found()
}
