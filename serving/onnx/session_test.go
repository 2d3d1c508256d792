package onnx

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openModel(t *testing.T, name string) *Session {
	t.Helper()
	s, err := Open(filepath.Join(onnxtest.Folder(t, name), "model.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func text(texts ...string) []oip.Tensor {
	return []oip.Tensor{{Name: "text", Shape: []int64{int64(len(texts))}, Data: texts}}
}

func TestInferOnText(t *testing.T) {
	s := openModel(t, onnxtest.Text)
	wantIn := []oip.TensorMetadata{{Name: "text", Datatype: oip.Bytes, Shape: []int64{-1}}}
	if diff := cmp.Diff(wantIn, s.Inputs()); diff != "" {
		t.Errorf("inputs (-want +got):\n%s", diff)
	}
	wantOut := []oip.TensorMetadata{{Name: "probabilities", Datatype: oip.FP32, Shape: []int64{-1, 2}}}
	if diff := cmp.Diff(wantOut, s.Outputs()); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
	got, err := s.Infer(t.Context(), text("spam", "", "häm"))
	if err != nil {
		t.Fatal(err)
	}
	p, q := float32(0.9), 1-float32(0.9)
	want := []oip.Tensor{{Name: "probabilities", Shape: []int64{3, 2}, Data: []float32{q, p, 1 - float32(0.1), 0.1, 1 - float32(0.1), 0.1}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
}

func TestEveryElementTypeSurvives(t *testing.T) {
	s := openModel(t, onnxtest.Echo)
	shape := []int64{2, 2}
	inputs := []oip.Tensor{
		{Name: "bool", Shape: shape, Data: []bool{true, false, false, true}},
		{Name: "int32", Shape: shape, Data: []int32{-1 << 31, 0, 1, 1<<31 - 1}},
		{Name: "int64", Shape: shape, Data: []int64{-1 << 63, 0, 1, 1<<63 - 1}},
		{Name: "uint8", Shape: shape, Data: []uint8{0, 1, 254, 255}},
		{Name: "float", Shape: shape, Data: []float32{-1.5, 0, 1e-30, 1e30}},
		{Name: "double", Shape: shape, Data: []float64{-1.5, 0, 1e-300, 1e300}},
		{Name: "string", Shape: shape, Data: []string{"", "a", "ünï", "line\nline"}},
	}
	got, err := s.Infer(t.Context(), inputs)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]oip.Tensor, len(inputs))
	for i, in := range inputs {
		want[i] = oip.Tensor{Name: in.Name + "_out", Shape: in.Shape, Data: in.Data}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
}

func TestTheOtherElementTypesSurvive(t *testing.T) {
	s := openModel(t, onnxtest.EchoSmall)
	for _, rows := range []int64{1, 2} { // the room for halves is made anew for each
		shape, n := []int64{rows, 2}, 2*rows
		inputs := []oip.Tensor{
			{Name: "int8", Shape: shape, Data: []int8{-128, 127, 0, 1}[:n]},
			{Name: "int16", Shape: shape, Data: []int16{-1 << 15, 1<<15 - 1, 0, 1}[:n]},
			{Name: "uint16", Shape: shape, Data: []uint16{0, 1<<16 - 1, 1, 2}[:n]},
			{Name: "uint32", Shape: shape, Data: []uint32{0, 1<<32 - 1, 1, 2}[:n]},
			{Name: "uint64", Shape: shape, Data: []uint64{0, 1<<64 - 1, 1, 2}[:n]},
			{Name: "float16", Shape: shape, Data: []oip.Float16{0x3c00, 0xfbff, 0x0001, 0x8000}[:n]},
			{Name: "bfloat16", Shape: shape, Data: []oip.BFloat16{0x3f80, 0xff7f, 0x0001, 0x8000}[:n]},
		}
		got, err := s.Infer(t.Context(), inputs)
		if err != nil {
			t.Fatal(err)
		}
		want := make([]oip.Tensor, len(inputs))
		for i, in := range inputs {
			want[i] = oip.Tensor{Name: in.Name + "_out", Shape: in.Shape, Data: in.Data}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("outputs (-want +got):\n%s", diff)
		}
	}
}

func TestModelsWithOutputsThatCannotBeServed(t *testing.T) {
	for model, says := range map[string]string{
		onnxtest.ZipMap:   `"probabilities" is a sequence or a map, not a tensor. scikit-learn's classifiers put out such probabilities unless they are converted without ZipMap: convert_sklearn(model, ..., options={'zipmap': False})`,
		onnxtest.HalfOpen: `output "y" is FP16 of shape [-1 -1]; only its first dimension, the rows of the inputs, may be open`,
	} {
		s, err := Open(filepath.Join(onnxtest.Folder(t, model), "model.onnx"))
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", model, err, says)
		}
		if err == nil {
			s.Close()
		}
	}
}

// TestOutputsWithoutDimensions: a single value has the shape []; an output of which the model says no dimensions has those that it has.
func TestOutputsWithoutDimensions(t *testing.T) {
	s := openModel(t, onnxtest.Scalars)
	got, err := s.Infer(t.Context(), []oip.Tensor{{Name: "x", Shape: []int64{3}, Data: []float32{1, 2, 4}}})
	if err != nil {
		t.Fatal(err)
	}
	want := []oip.Tensor{
		{Name: "sum", Shape: []int64{}, Data: []float32{7}},
		{Name: "nothing", Shape: []int64{}, Data: []bool{false}},
		{Name: "same", Shape: []int64{3}, Data: []float32{1, 2, 4}},
		{Name: "text", Shape: []int64{}, Data: []string{"sum"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
}

func TestInputsThatDoNotFit(t *testing.T) {
	s := openModel(t, onnxtest.Text)
	for name, inputs := range map[string][]oip.Tensor{
		"missing":   {},
		"unknown":   append(text("a"), oip.Tensor{Name: "more", Shape: []int64{1}, Data: []string{"a"}}),
		"type":      {{Name: "text", Shape: []int64{1}, Data: []float32{1}}},
		"rank":      {{Name: "text", Shape: []int64{1, 1}, Data: []string{"a"}}},
		"empty":     {{Name: "text", Shape: []int64{0}, Data: []string{}}},
		"zero byte": text("a\x00b"),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Infer(t.Context(), inputs)
			if err == nil || oip.ErrorStatus(err) != http.StatusBadRequest {
				t.Errorf("Infer = %v, want an error with status 400", err)
			}
		})
	}
}

// An inference that fails is an error to whoever asked, and nothing on the terminal.
func TestInferSaysNothing(t *testing.T) {
	s := openModel(t, onnxtest.OneHot)
	terminal, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	before, err := syscall.Dup(2)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Dup3(int(terminal.Fd()), 2, 0); err != nil {
		t.Fatal(err)
	}
	_, failed := s.Infer(t.Context(), []oip.Tensor{{Name: "text", Shape: []int64{1}, Data: []string{"eggs"}}})
	if err := errors.Join(syscall.Dup3(before, 2, 0), syscall.Close(before)); err != nil {
		t.Fatal(err)
	}
	if failed == nil || !strings.Contains(failed.Error(), "Unknown Category") {
		t.Errorf("Infer = %v", failed)
	}
	if said, err := os.ReadFile(terminal.Name()); err != nil || len(said) > 0 {
		t.Errorf("it wrote %q, %v", said, err)
	}
}

func TestInferStopsWithItsContext(t *testing.T) {
	s := openModel(t, onnxtest.Loop)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := s.Infer(ctx, []oip.Tensor{{Name: "n", Shape: []int64{1}, Data: []int64{1 << 40}}})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Infer = %v, want the deadline's error", err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("Infer went on for %v after its deadline", took)
	}
}

func TestConcurrentInferAndClose(t *testing.T) {
	s := openModel(t, onnxtest.Text)
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			for range 200 {
				out, err := s.Infer(t.Context(), text("spam"))
				if errors.Is(err, ErrClosed) {
					return
				}
				if err != nil || out[0].Data.([]float32)[1] != 0.9 {
					t.Errorf("Infer = %v, %v", out, err)
					return
				}
			}
		})
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	group.Wait()
	if _, err := s.Infer(t.Context(), text("spam")); !errors.Is(err, ErrClosed) {
		t.Errorf("Infer after Close = %v, want ErrClosed", err)
	}
}

func TestFilesThatAreNoModels(t *testing.T) {
	dir := t.TempDir()
	if _, err := ModelFile(dir); err == nil {
		t.Error("a folder without a model was accepted")
	}
	broken := filepath.Join(dir, "broken.onnx")
	if err := os.WriteFile(broken, []byte("not a model"), 0o600); err != nil {
		t.Fatal(err)
	}
	if found, err := ModelFile(dir); err != nil || found != broken {
		t.Errorf("ModelFile = %q, %v, want %q", found, err, broken)
	}
	if _, err := Open(broken); err == nil {
		t.Error("a broken model was loaded")
	}
	if err := os.WriteFile(filepath.Join(dir, "second.onnx"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ModelFile(dir); err == nil {
		t.Error("a folder with two models was accepted")
	}
}

func TestFindLibrary(t *testing.T) {
	dir := t.TempDir()
	capi := filepath.Join(dir, "lib", "python3.11", "site-packages", "onnxruntime", "capi")
	if err := os.MkdirAll(capi, 0o700); err != nil {
		t.Fatal(err)
	}
	inEnv := filepath.Join(capi, "libonnxruntime.so.1.31.1")
	byHand := filepath.Join(dir, "mine.so")
	for _, path := range []string{inEnv, byHand} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(LibraryVariable, "")
	t.Setenv(EnvironmentVariable, dir)
	if got, err := FindLibrary(); err != nil || got != inEnv {
		t.Errorf("in the environment: %q, %v, want %q", got, err, inEnv)
	}
	t.Setenv(LibraryVariable, byHand)
	if got, err := FindLibrary(); err != nil || got != byHand {
		t.Errorf("by variable: %q, %v, want %q", got, err, byHand)
	}
	t.Setenv(LibraryVariable, filepath.Join(dir, "absent.so"))
	if got, err := FindLibrary(); !errors.Is(err, ErrNoLibrary) {
		t.Errorf("absent: %q, %v, want ErrNoLibrary", got, err)
	}
	t.Setenv(LibraryVariable, "")
	t.Setenv(EnvironmentVariable, t.TempDir())
	if got, err := FindLibrary(); err != nil || got != systemLibrary {
		t.Errorf("nowhere: %q, %v, want %q", got, err, systemLibrary)
	}
}
