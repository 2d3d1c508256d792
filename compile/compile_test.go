package compile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sluiceml/sluice/compile/trtexec/trtexectest"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/serving/answer"
	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/onnx"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
	"github.com/sluiceml/sluice/store"
)

func TestMain(m *testing.M) {
	trtexectest.Main()
	if len(os.Args) > 1 && os.Args[1] == Arg {
		if err := Main(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// python returns the project's interpreter, which the set-up of the tests has made.
func python(t *testing.T) string {
	t.Helper()
	env := os.Getenv(onnx.EnvironmentVariable)
	if env == "" {
		env = filepath.Join("..", ".venv")
	}
	path, err := filepath.Abs(filepath.Join(env, "bin", "python3"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("there is no project Python: %v", err)
	}
	return path
}

// samples writes a dataset whose test split has rows for the model.
func samples(t *testing.T, count int, row func(rng *rand.Rand) map[string]any) string {
	t.Helper()
	dir := t.TempDir()
	writeSplit(t, dir, "test", count, row)
	return dir
}

func writeSplit(t *testing.T, dir, split string, count int, row func(rng *rand.Rand) map[string]any) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, uint64(len(split))))
	var lines strings.Builder
	for range count {
		line, err := json.Marshal(row(rng))
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(line, '\n'))
	}
	if err := os.Mkdir(filepath.Join(dir, split), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, split, "part-0.jsonl"), []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

func vectors(rng *rand.Rand) map[string]any {
	x := make([]float64, 16)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return map[string]any{"x": x}
}

func images(rng *rand.Rand) map[string]any {
	x := make([]float64, 64)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return map[string]any{"x": x}
}

func texts(rng *rand.Rand) map[string]any {
	return map[string]any{"text": []string{"spam", "ham"}[rng.IntN(2)]}
}

func newJob(t *testing.T, model, dataset string, variants map[string]spec.Variant) Job {
	t.Helper()
	s, err := store.Open(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Job{
		Spec:  spec.CompileModel{Variants: variants},
		Model: onnxtest.Folder(t, model), Dataset: dataset, Dir: t.TempDir(),
		Store: s, Python: python(t), Executable: executable,
	}
}

func TestRun(t *testing.T) {
	job := newJob(t, onnxtest.MLP, samples(t, 100, vectors), map[string]spec.Variant{
		"fp32": {ONNX: &spec.ONNXVariant{Optimize: "all"}, Tolerance: spec.Tolerance{MaxAbs: new(1e-4), Top1: new(1.0)}},
		"int8": {ONNX: &spec.ONNXVariant{Precision: "int8"}, Tolerance: spec.Tolerance{Cosine: new(0.99)}},
	})
	job.Spec.Select = "smallest"
	var steps []string
	job.Progress = func(text string) { steps = append(steps, text) }
	out, err := Run(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"loading the source model", "building fp32", "building int8", "measuring fp32, int8"}, steps); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	if out.Selected.Name != "int8" || out.Selected.Model != out.Variants["int8"].Model {
		t.Errorf("selected %+v", out.Selected)
	}
	if diff := cmp.Diff(spec.Parity{Cosine: 1, Top1: 1, Agreement: 1, Batched: new(1.0)}, out.Source.Parity); diff != "" {
		t.Errorf("the source model's parity with itself (-want +got):\n%s", diff)
	}
	if p := out.Variants["int8"].Parity; p.MaxAbs == 0 || p.Cosine == 1 || p.Top1 < 0.9 {
		t.Errorf("parity of int8 is %+v; it cannot be the source model", p)
	}
	for name, v := range out.Variants {
		if v.Latency.P50MS <= 0 || v.Latency.P99MS < v.Latency.P50MS || v.Throughput <= 0 || v.Bytes <= 0 {
			t.Errorf("%s: %+v", name, v)
		}
		dir := filepath.Join(t.TempDir(), "model")
		if err := job.Store.Fetch(t.Context(), v.Model, dir); err != nil {
			t.Fatal(err)
		}
		serves(t, dir)
	}
	job.Dir, job.Progress = t.TempDir(), nil
	again, err := Run(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	for name := range out.Variants {
		if out.Variants[name].Model != again.Variants[name].Model || !cmp.Equal(out.Variants[name].Parity, again.Variants[name].Parity) {
			t.Errorf("%s: another model or parity the second time", name)
		}
	}
}

// serves checks that a stored variant is a model that runs.
func serves(t *testing.T, dir string) {
	t.Helper()
	file, err := onnx.ModelFile(dir)
	if err != nil {
		t.Fatal(err)
	}
	session, err := onnx.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := session.Infer(t.Context(), []oip.Tensor{{Name: "x", Shape: []int64{2, 16}, Data: make([]float32, 32)}}); err != nil {
		t.Error(err)
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
}

func TestTextModels(t *testing.T) {
	for _, model := range []string{onnxtest.Text, onnxtest.Words} {
		t.Run(model, func(t *testing.T) {
			same := spec.Tolerance{MaxAbs: new(0.01), Cosine: new(0.9999), Top1: new(1.0)}
			job := newJob(t, model, samples(t, 20, texts), map[string]spec.Variant{
				"fp32": {ONNX: &spec.ONNXVariant{}, Tolerance: same},
				"int8": {ONNX: &spec.ONNXVariant{Precision: "int8"}, Tolerance: same},
			})
			job.Spec.Select = "fp32"
			out, err := Run(t.Context(), job)
			if err != nil {
				t.Fatal(err)
			}
			if out.Selected.Name != "fp32" {
				t.Errorf("selected %q", out.Selected.Name)
			}
		})
	}
}

func TestFaults(t *testing.T) {
	dataset := samples(t, 50, vectors)
	tight := map[string]spec.Variant{"int8": {ONNX: &spec.ONNXVariant{Precision: "int8"}, Tolerance: spec.Tolerance{MaxAbs: new(1e-9)}}}
	fp32 := map[string]spec.Variant{"fp32": {ONNX: &spec.ONNXVariant{}}}
	for _, tc := range []struct {
		name   string
		job    Job
		change func(*Job)
		want   string
	}{
		{"no variants", newJob(t, onnxtest.MLP, dataset, nil), func(*Job) {}, "no variants"},
		{"no builder", newJob(t, onnxtest.MLP, dataset, map[string]spec.Variant{"x": {}}), func(*Job) {}, "build variant x: it has no builder"},
		{"no such selection", newJob(t, onnxtest.MLP, dataset, fp32), func(j *Job) { j.Spec.Select = "fp16" }, `no variant "fp16"`},
		{"no such split", newJob(t, onnxtest.MLP, dataset, fp32), func(j *Job) { j.Spec.Samples.Split = "tset" }, "it has: test"},
		{"other columns", newJob(t, onnxtest.MLP, samples(t, 1, texts), fp32), func(*Job) {}, `a column "x"; the row has: text`},
		{"scikit-learn's maps", newJob(t, onnxtest.ZipMap, dataset, fp32), func(j *Job) {
			j.Progress = func(what string) {
				if strings.HasPrefix(what, "building") {
					t.Errorf("%s, of a model that cannot be served", what)
				}
			}
		}, "the source model: load model.onnx: \"probabilities\" is a sequence or a map, not a tensor. scikit-learn's classifiers put out such " +
			"probabilities unless they are converted without ZipMap: convert_sklearn(model, ..., options={'zipmap': False})"},
		{"no model", newJob(t, onnxtest.MLP, dataset, fp32), func(j *Job) { j.Model = t.TempDir() }, "no .onnx file"},
		{"a broken model", newJob(t, onnxtest.MLP, dataset, fp32), func(j *Job) {
			if err := os.WriteFile(filepath.Join(j.Model, "model.onnx"), []byte("broken"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "the source model: load model.onnx:"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.change(&tc.job)
			_, err := Run(t.Context(), tc.job)
			if fault, ok := errors.AsType[*ModelError](err); !ok || !strings.Contains(fault.Message, tc.want) {
				t.Errorf("%v, want a ModelError with %q", err, tc.want)
			}
		})
	}
	t.Run("out of tolerance", func(t *testing.T) {
		_, err := Run(t.Context(), newJob(t, onnxtest.MLP, dataset, tight))
		if e, ok := errors.AsType[*ToleranceError](err); !ok || e.Variant != "int8" || e.Measure != "max_abs" || e.Measured <= e.Tolerated {
			t.Errorf("%v, want a ToleranceError of int8", err)
		}
	})
	t.Run("no Python", func(t *testing.T) {
		job := newJob(t, onnxtest.MLP, dataset, fp32)
		job.Python = filepath.Join(t.TempDir(), "python3")
		if _, err := Run(t.Context(), job); err == nil || !strings.Contains(err.Error(), "project's Python") {
			t.Errorf("%v", err)
		}
	})
}

func TestCancel(t *testing.T) {
	job := newJob(t, onnxtest.MLP, samples(t, 10, vectors), map[string]spec.Variant{"fp32": {ONNX: &spec.ONNXVariant{}}})
	ctx, cancel := context.WithCancel(t.Context())
	job.Progress = func(string) { cancel() }
	start := time.Now()
	if _, err := Run(ctx, job); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want canceled", err)
	}
	if took := time.Since(start); took > 15*time.Second {
		t.Errorf("a canceled compile went on for %v", took)
	}
}

func TestCosine(t *testing.T) {
	for _, tc := range []struct {
		x, y []float64
		want float64
	}{
		{[]float64{1, 0}, []float64{0, 1}, 0},
		{[]float64{1, 2}, []float64{2, 4}, 1},
		{[]float64{1, 2}, []float64{-1, -2}, -1},
		{[]float64{0, 0}, []float64{0, 0}, 1},
		{[]float64{0, 0}, []float64{1, 0}, 0},
	} {
		if got := cosine(tc.x, tc.y); got < tc.want-1e-12 || got > tc.want+1e-12 {
			t.Errorf("cosine(%v, %v) = %v, want %v", tc.x, tc.y, got, tc.want)
		}
	}
}

func TestMedians(t *testing.T) {
	timings := []time.Duration{5, 1, 90, 2, 7, 80} // two samples, three passes: 5, 90, 7 and 1, 2, 80
	if diff := cmp.Diff([]time.Duration{2, 7}, medians(timings, 2)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPick(t *testing.T) {
	variants := map[string]spec.VariantOutput{
		"a": {Latency: spec.Latency{P50MS: 2}, Bytes: 1},
		"b": {Latency: spec.Latency{P50MS: 1}, Bytes: 2},
		"c": {Latency: spec.Latency{P50MS: 1}, Bytes: 1},
	}
	for how, want := range map[string]string{"": "b", "fastest": "b", "smallest": "a", "c": "c", "d": ""} {
		if got := pick(how, []string{"a", "b", "c"}, variants); got != want {
			t.Errorf("select %q picks %q, want %q", how, got, want)
		}
	}
}

func TestZeroIsATolerance(t *testing.T) {
	worst := spec.Parity{MaxAbs: 0.1, Cosine: -0.1, Top1: -0.1, Agreement: 0.5}
	for _, tc := range []struct{ declared, broken string }{
		{`{}`, ""},
		{`{"max_abs": 0}`, "max_abs"},
		{`{"cosine": 0}`, "cosine"},
		{`{"top1": 0}`, "top1"},
		{`{"agreement": 0.6}`, "agreement"},
		{`{"max_abs": 0.1, "cosine": -0.1}`, ""},
	} {
		var tolerance spec.Tolerance
		if err := json.Unmarshal([]byte(tc.declared), &tolerance); err != nil {
			t.Fatal(err)
		}
		err := tolerated("int8", worst, tolerance)
		if e, broken := errors.AsType[*ToleranceError](err); broken != (tc.broken != "") || broken && e.Measure != tc.broken {
			t.Errorf("%s: %v, want %q broken", tc.declared, err, tc.broken)
		}
	}
}

// TestAgreement: answers are compared by the step's rule, and the class by the model's first output.
func TestAgreement(t *testing.T) {
	price := func(v float32) []oip.Tensor {
		return []oip.Tensor{{Name: "price", Shape: []int64{1, 1}, Data: []float32{v}}}
	}
	rules := answer.Rules{{Output: "price", Rule: spec.CompareTolerance, RTol: 0.01}}
	p := newParity()
	for _, own := range []float32{1000, 1009, 1011} {
		if err := p.add(rules, price(1000), price(own)); err != nil {
			t.Fatal(err)
		}
	}
	if p.sums.Agreement != 2 || p.sums.Top1 != 1 {
		t.Errorf("%+v: want 2 within 1%%, and 1 that is the same", p.sums)
	}
}
