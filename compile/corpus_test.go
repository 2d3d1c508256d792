package compile

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/serving/onnx"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
)

// refusals are variants of models of the corpus that cannot be built, and what of the model the error says is why.
var refusals = map[string]string{
	"integers_11 fp16": "the model is quantised already, and the sums of its MatMulInteger do not fit into fp16: make fp16 of the model before it was quantised",
}

// TestCorpus: every variant of every model is built and near its source, or refused with a sentence that says what of the model is why.
func TestCorpus(t *testing.T) {
	corpus := filepath.Join(t.TempDir(), "corpus")
	made := exec.CommandContext(t.Context(), python(t), filepath.Join("testdata", "corpus", "models.py"), corpus)
	if out, err := made.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	models, err := os.ReadDir(corpus)
	if err != nil || len(models) < 40 {
		t.Fatalf("%d models, %v", len(models), err)
	}
	for _, m := range models {
		t.Run(m.Name(), func(t *testing.T) {
			t.Parallel()
			corpusModel(t, m.Name(), filepath.Join(corpus, m.Name()))
		})
	}
}

// least is the cosine that a variant's outputs have with the source model's on every row.
var least = map[string]float64{"fp32": 0.99999, "fp16": 0.9995, "int8": 0.95, "static": 0.9, "engine": 0.9}

func corpusModel(t *testing.T, name, dir string) {
	job := newJob(t, onnxtest.MLP, filepath.Join(dir, "rows"), nil)
	job.Model = dir
	calibration := &spec.Calibration{Dataset: artifact.Ref{Digest: "train"}}
	job.Calibrations = map[string]string{"train": job.Dataset}
	all := map[string]spec.Variant{
		"fp32":   {ONNX: &spec.ONNXVariant{}},
		"fp16":   {ONNX: &spec.ONNXVariant{Precision: "fp16"}},
		"int8":   {ONNX: &spec.ONNXVariant{Precision: "int8"}},
		"static": {ONNX: &spec.ONNXVariant{Precision: "int8", Calibration: calibration}},
	}
	job.Spec.Variants = map[string]spec.Variant{}
	for _, variant := range slices.Sorted(maps.Keys(all)) {
		if why, refused := refusals[name+" "+variant]; refused {
			alone := job
			alone.Dir, alone.Spec.Variants = t.TempDir(), map[string]spec.Variant{variant: all[variant]}
			_, err := Build(t.Context(), alone)
			if fault, ok := errors.AsType[*ModelError](err); !ok || fault.Message != "build variant "+variant+": "+why {
				t.Errorf("%s: %v, want the sentence: %s", variant, err, why)
			}
			continue
		}
		job.Spec.Variants[variant] = all[variant]
	}
	report, err := Build(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	for variant, v := range report.Variants {
		// scikit-learn's classifiers put out a label, which is another number where two classes are close.
		if v.Parity.Cosine < least[variant] && !(strings.HasPrefix(name, "skl_") && v.Parity.Top1 >= 0.95) {
			t.Errorf("%s: parity is %+v", variant, v.Parity)
		}
		if was, is := *report.Source.Parity.Batched, *v.Parity.Batched; was == 1 && is < 1 && variant != "int8" {
			t.Errorf("%s: %v of its answers are the same alone and among other rows", variant, is)
		}
	}
	explicit(t, job, name, dir)
}

// explicit builds what TensorRT would be given for an engine in int8, and runs it operator by operator.
func explicit(t *testing.T, job Job, name, dir string) {
	scratch := t.TempDir()
	calibration, err := job.calibrationRows(t.Context(), cutModel{Model: filepath.Join(dir, "model.onnx")}, scratch, spec.Calibration{Dataset: artifact.Ref{Digest: "train"}})
	if err != nil {
		t.Fatal(err)
	}
	b := buildJob{
		Source: filepath.Join(dir, "model.onnx"), Target: filepath.Join(scratch, "engine.onnx"), Optimize: "basic", Precision: "int8",
		Calibration: calibration, Explicit: true, KeepFP32: []string{},
	}
	err = runTools(t.Context(), job.Python, b)
	if why, refused := refusals[name+" engine"]; refused {
		if fault, ok := errors.AsType[*ModelError](err); !ok || !strings.Contains(fault.Message, why) {
			t.Errorf("engine: %v, want the sentence: %s", err, why)
		}
		return
	}
	if err != nil {
		t.Fatalf("engine: %v", err)
	}
	var vectors [2][][]float64
	for i, file := range []string{b.Source, b.Target} {
		session, err := onnx.OpenAsWritten(file)
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		rows, err := readSamples(job.Dataset, spec.Samples{}, session)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			outputs, err := session.Infer(t.Context(), row)
			if err != nil {
				t.Fatal(err)
			}
			var all []float64
			for _, output := range outputs {
				numbers, _ := output.Float64s()
				all = append(all, numbers...)
			}
			vectors[i] = append(vectors[i], all)
		}
	}
	for i := range vectors[0] {
		if c := cosine(vectors[0][i], vectors[1][i]); c < least["engine"] {
			t.Errorf("engine: the cosine of row %d is %v", i+1, c)
		}
	}
}
