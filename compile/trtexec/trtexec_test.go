package trtexec

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/compile/trtexec/trtexectest"
	"github.com/sluiceml/sluice/internal/proc"
)

func TestVersion(t *testing.T) {
	for _, tc := range []struct {
		banner, dotted string
		major          int
	}{
		{"&&&& RUNNING TensorRT.trtexec [TensorRT v100300] # trtexec --help", "10.3.0", 10},
		{"&&&& RUNNING TensorRT.trtexec [TensorRT v110201] [b3] # trtexec --help", "11.2.1", 11},
		{"&&&& RUNNING TensorRT.trtexec [TensorRT v11.1.0.106] [b48] # trtexec --help", "11.1.0.106", 11},
		{"&&&& RUNNING TensorRT.trtexec [TensorRT v8602] # trtexec --help", "", 0},
		{"&&&& RUNNING TensorRT.trtexec [TensorRT v120000] # trtexec --help", "", 0},
		{"usage: trtexec", "", 0},
	} {
		dotted, major, err := version("[I] something\n" + tc.banner + "\n=== Model Options ===\n")
		_, unavailable := errors.AsType[*UnavailableError](err)
		if dotted != tc.dotted || major != tc.major || unavailable != (tc.major == 0) {
			t.Errorf("%s: %q, %d, %v", tc.banner, dotted, major, err)
		}
	}
}

func TestMain(m *testing.M) {
	trtexectest.Main()
	os.Exit(m.Run())
}

// TestFind: the GPU is the first that CUDA would use, or the first instance of it.
func TestFind(t *testing.T) {
	whole := trtexectest.L4("10.3.0")
	divided := whole
	divided.Instance = "3g.20gb"
	for _, tc := range []struct {
		name    string
		machine trtexectest.Options
		visible []string // CUDA_VISIBLE_DEVICES, where it is set
		gpu     string
		uuid    string
		fails   string
	}{
		{"any", whole, nil, "NVIDIA L4", "GPU-0a1b", ""},
		{"by number", whole, []string{"0,1"}, "NVIDIA L4", "GPU-0a1b", ""},
		{"by UUID", whole, []string{"GPU-0a1b"}, "NVIDIA L4", "GPU-0a1b", ""},
		{"another", whole, []string{"7"}, "", "", "No devices were found"},
		{"none", whole, []string{""}, "", "", "CUDA_VISIBLE_DEVICES hides all GPUs"},
		{"an instance", divided, []string{"MIG-2c3d"}, "NVIDIA L4 MIG 3g.20gb", "MIG-2c3d", ""},
		{"another instance", divided, []string{"MIG-ffff"}, "", "", "nvidia-smi does not list MIG-ffff, which CUDA_VISIBLE_DEVICES selects"},
		{"an instance of a whole GPU", whole, []string{"MIG-2c3d"}, "", "", "nvidia-smi does not list MIG-2c3d"},
		{"a GPU that is divided", divided, []string{"GPU-0a1b"}, "NVIDIA L4 MIG 3g.20gb", "MIG-2c3d", ""},
		{"any, divided", divided, nil, "NVIDIA L4 MIG 3g.20gb", "MIG-2c3d", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			trtexectest.Install(t, tc.machine)
			t.Setenv("CUDA_VISIBLE_DEVICES", "") // put back at the end
			os.Unsetenv("CUDA_VISIBLE_DEVICES")
			if tc.visible != nil {
				t.Setenv("CUDA_VISIBLE_DEVICES", tc.visible[0])
			}
			tool, err := Find(t.Context())
			if tc.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fails) {
					t.Errorf("%v, want %q", err, tc.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := Platform{GPU: tc.gpu, ComputeCapability: "8.9", Driver: "550.54.15", TensorRT: "10.3.0"}
			if tool.Platform != want || tool.uuid != tc.uuid {
				t.Errorf("%+v as %s, want %+v as %s", tool.Platform, tool.uuid, want, tc.uuid)
			}
		})
	}
}

// TestFinder: a GPU is looked at again each time, trtexec when it is another file.
func TestFinder(t *testing.T) {
	var f Finder
	platform := func() Platform {
		t.Helper()
		p, err := f.Platform(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	calls := trtexectest.Install(t, trtexectest.L4("10.3.0"))
	want := platform()
	if got := platform(); got != want {
		t.Errorf("%+v, then %+v", want, got)
	}
	content, err := os.ReadFile(calls)
	if err != nil || strings.Count(string(content), "--help") != 1 {
		t.Errorf("%v; trtexec was called as\n%s", err, content)
	}
	const other = "#!/bin/sh\necho 'GPU-4e5f, NVIDIA H100, 9.0, 550.54.15, Disabled'\n"
	if err := os.WriteFile(filepath.Join(filepath.Dir(calls), "nvidia-smi"), []byte(other), 0o755); err != nil {
		t.Fatal(err)
	}
	want.GPU, want.ComputeCapability = "NVIDIA H100", "9.0"
	if got := platform(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.json")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadOutputs(t *testing.T) {
	got, err := ReadOutputs(file(t, `[
  { "name" : "nan", "dimensions" : "1x2", "values" : [ 0.5, -1e-06 ] }
, { "name" : "b", "dimensions" : "2", "values" : [ 1, 0 ] }
]`))
	want := []Output{{"nan", []int64{1, 2}, []float64{0.5, -1e-6}}, {"b", []int64{2}, []float64{1, 0}}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v; (-want +got):\n%s", err, diff)
	}
	for content, infinite := range map[string]bool{
		`[{ "name" : "a", "dimensions" : "1x2", "values" : [ 0.5, -nan ] }]`:         true,
		`[{ "name" : "a", "dimensions" : "1x2", "values" : [ inf, 1 ] }]`:            true,
		`[{ "name" : "a", "dimensions" : "1x2", "values" : [ 0.5 ] }]`:               false,
		`[{ "name" : "a", "dimensions" : "scalar", "values" : [ 0.5 ] }]`:            false,
		`[{ "name" : "a, inf", "dimensions" : "1x2", "values" : [ 0.5, 0.5 ] }`:      false,
		`[{ "name" : "a", "dimensions" : "1x2", "values" : [ 0.5, 0.5 ] }, { "name"`: false,
	} {
		_, err := ReadOutputs(file(t, content))
		if _, is := errors.AsType[*NotFiniteError](err); err == nil || is != infinite {
			t.Errorf("%s: %v", content, err)
		}
	}
}

func TestReadProfile(t *testing.T) {
	got, err := ReadProfile(file(t, `[ { "count" : 7 }
, { "name" : "a", "timeMs" : 1, "averageMs" : 0.1, "medianMs" : 0.1, "percentage" : 25 }
, { "name" : "b", "timeMs" : 3, "averageMs" : 0.3, "medianMs" : 0.3, "percentage" : 75 } ]`))
	if diff := cmp.Diff([]Layer{{"b", 0.3, 0.75}, {"a", 0.1, 0.25}}, got); diff != "" || err != nil {
		t.Errorf("%v; (-want +got):\n%s", err, diff)
	}
}

func TestReadLayers(t *testing.T) {
	got, err := ReadLayers(file(t, `{"Layers": ["a", {"Name": "b", "Outputs": []},
{"Name": "c", "Outputs": [{"Format/Datatype": "Row major linear FP16 format"}]},
{"Name": "d", "Outputs": [{"Format/Datatype": "Thirty-two wide channel vectorized row major Int8 format"}]}], "Bindings": []}`))
	if diff := cmp.Diff(map[string]int{"": 2, "FP16": 1, "INT8": 1}, got); diff != "" || err != nil {
		t.Errorf("%v; (-want +got):\n%s", err, diff)
	}
}

func TestNoInference(t *testing.T) {
	for _, content := range []string{`[]`, `[{"startH2dMs": 1, "endD2hMs": 1, "latencyMs": 0}]`, `{`} {
		if got, err := ReadTimes(file(t, content)); err == nil {
			t.Errorf("%s: %+v", content, got)
		}
	}
}

func TestNamesWithColons(t *testing.T) {
	if got := (Shapes{"b:0": {1, 2}, "a": {3}}).spec(); got != "a:3,'b:0':1x2" {
		t.Error(got)
	}
}

func TestCause(t *testing.T) {
	o := &output{tail: proc.NewTail(2)}
	for _, piece := range []string{"[I] a\n[11/22/2026-23:00:01] [E] Error[4]: ", "no such kernel\n[E] the consequence\n", "[I] b\n"} {
		if n, err := o.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
	}
	if o.cause != "Error[4]: no such kernel" {
		t.Errorf("the cause is %q", o.cause)
	}
	if got := o.tail.String(); strings.TrimSpace(got) != "[E] the consequence\n[I] b" {
		t.Errorf("the last lines are %q", got)
	}
}
