package compile

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluiceml/sluice/compile/trtexec/trtexectest"
	"github.com/sluiceml/sluice/dsl/inputpath"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/offload"
	"github.com/sluiceml/sluice/internal/stepargs"
	"github.com/sluiceml/sluice/serving/onnx"
)

// onNode runs the program that a node is asked to run for a job, and returns the folder that it leaves, and what it prints, with what it did last.
func (job Job) onNode(t *testing.T) (left, said string) {
	t.Helper()
	train := job.Spec.Train()
	dirs := map[string]string{}
	for name, ref := range train.Inputs {
		dirs[name] = filepath.Join(t.TempDir(), name)
		if err := job.Store.Fetch(t.Context(), ref, dirs[name]); err != nil {
			t.Fatal(err)
		}
	}
	var argv []string
	for _, arg := range train.Command.Command {
		filled, err := inputpath.Replace(arg, dirs)
		if err != nil {
			t.Fatal(err)
		}
		argv = append(argv, filled)
	}
	if argv[0] != "sluice" || argv[1] != stepargs.Compile {
		t.Fatalf("the node is to run %q", argv)
	}
	resolved, err := spec.Encode(job.Spec)
	dir := t.TempDir()
	if err == nil {
		argv, err = stepargs.Write(argv, argv[0], dir, resolved)
	}
	if err != nil {
		t.Fatal(err)
	}
	output := t.TempDir()
	t.Setenv("SLUICE_OUTPUT_DIR", output)
	t.Setenv("PATH", filepath.Dir(job.Python)+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv(onnx.LibraryVariable, "")
	var stdout bytes.Buffer
	if err := Program(t.Context(), argv[2:], &stdout); err != nil {
		t.Fatal(err)
	}
	if told, ok := stepargs.ReadProgress(dir); ok {
		fmt.Fprintln(&stdout, "at the end it was", told.Text)
	}
	return filepath.Join(output, train.Outputs[spec.CompileBuilt].Path), stdout.String()
}

// TestProgram: what is built on a node of a pool has the outputs and is the artifacts that it has and is beside the worker; of a model that
// cannot be compiled the report says so.
func TestProgram(t *testing.T) {
	trtexectest.Install(t, trtexectest.L4("10.3.0"))
	job := engines(t)
	for dir, ref := range map[string]*artifact.Ref{job.Model: &job.Spec.Model, job.Dataset: &job.Spec.Samples.Dataset} {
		typ := artifact.Dataset
		if ref == &job.Spec.Model {
			typ = artifact.Model
		}
		var err error
		if *ref, err = job.Store.PutTree(t.Context(), typ, dir, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	job.Spec.Select = "int8"
	beside, err := Run(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	left, said := job.onNode(t)
	for _, want := range []string{"building fp16\nmeasuring fp16\n", "at the end it was measuring"} {
		if !strings.Contains(said, want) {
			t.Errorf("it said %q, want %q in it", said, want)
		}
	}
	entries, err := os.ReadDir(left)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if diff := cmp.Diff([]string{offload.BuildFile, "fp16", "fp32", "int8", "onnx"}, names); diff != "" {
		t.Errorf("it left (-want +got):\n%s", diff)
	}
	whole, err := job.Store.PutTree(t.Context(), artifact.Dataset, left, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	report, err := stepargs.ReadReport[offload.BuildReport](left, offload.BuildFile)
	if err != nil {
		t.Fatal(err)
	}
	there, err := Judge(job.Spec, report, func(name string, meta map[string]string) (artifact.Ref, error) {
		return job.Store.PutFolder(t.Context(), artifact.Model, whole, name, meta)
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(beside, there, cmpopts.IgnoreFields(spec.VariantOutput{}, "Latency", "Throughput")); diff != "" {
		t.Errorf("built on a node (-beside the worker +there):\n%s", diff)
	}
	for name, v := range there.Variants {
		if v.Latency.P50MS <= 0 || v.Throughput <= 0 {
			t.Errorf("%s was not measured: %+v", name, v)
		}
	}

	job.Spec.Samples.Split = "absent"
	left, _ = job.onNode(t)
	if report, err = stepargs.ReadReport[offload.BuildReport](left, offload.BuildFile); err != nil || !strings.Contains(report.Fault, `the dataset has no split "absent"`) {
		t.Errorf("of a split that the dataset lacks it reports %+v, %v", report, err)
	}
	if _, err := Judge(job.Spec, report, nil); err == nil || err.Error() != report.Fault {
		t.Errorf("that is judged as %v", err)
	}
}

// TestJudgeWhatIsMissing: a report without a variant of the step is no success.
func TestJudgeWhatIsMissing(t *testing.T) {
	_, err := Judge(spec.CompileModel{Variants: map[string]spec.Variant{"a": {}}}, offload.BuildReport{}, nil)
	if err == nil || !strings.Contains(err.Error(), "variant a was not built") {
		t.Errorf("got %v", err)
	}
}
