// Package onnxtest holds the small ONNX models that tests serve and compile. generate.py, beside it, makes them and says what each
// computes.
package onnxtest

import (
	"embed"
	"os"
	"path/filepath"
	"testing"
)

//go:embed *.onnx
var models embed.FS

// The models.
const (
	Text       = "text"        // text -> probabilities, class 1 for "spam"
	TextClose  = "text_close"  // the same answers, less sure
	TextWrong  = "text_wrong"  // the opposite answers
	Words      = "words"       // Text in ONNX Runtime's own operators, with weights to quantise
	WordsFront = "words_front" // text -> hits, the first part of Words
	WordsBack  = "words_back"  // hits -> probabilities, the second
	Echo       = "echo"        // seven element types, unchanged
	EchoSmall  = "echo_small"  // the other seven
	HalfOpen   = "half_open"   // a float16 tensor of any width, unchanged
	ZipMap     = "zipmap"      // x -> probabilities as a sequence of maps
	MLP        = "mlp"         // x [N,16] -> logits [N,3]
	Conv       = "conv"        // x [N,1,8,8] -> logits [N,3]
	OneHot     = "one_hot"     // text -> hot; an error for texts but ham and spam
	Loop       = "loop"        // n -> n, by counting to it
)

// Folder returns a new folder with the model as model.onnx, as a model artifact has it.
func Folder(t testing.TB, model string) string {
	t.Helper()
	content, err := models.ReadFile(model + ".onnx")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "model.onnx"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}
