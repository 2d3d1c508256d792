// Package onnxtest holds the small ONNX models that tests serve and compile. generate.py, beside it, makes them and says what each
// computes.
package onnxtest

import (
	"embed"
	"encoding/binary"
	"errors"
	"math"
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
	Logit      = "logit"       // x [N,1] -> y [N,1], unchanged
	ZipMap     = "zipmap"      // x -> probabilities as a sequence of maps
	MLP        = "mlp"         // x [N,16] -> logits [N,3]
	Conv       = "conv"        // x [N,1,8,8] -> logits [N,3]
	OneHot     = "one_hot"     // text -> hot; an error for texts but ham and spam
	Loop       = "loop"        // n -> n, by counting to it
	Scalars    = "scalars"     // x [N] -> sum, nothing (whether it is 0) and a text without dimensions; same, which is x
	Crash      = "crash"       // x [N,7] -> y [N,3]; ONNX Runtime 1.31 gets SIGSEGV when it loads it, and onnx.checker accepts it
	Table      = "table"       // ids -> rows of a table in the file model.onnx.data, of which row 7 is 1, 2, 3 and so on; see WriteTable
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

// TableBytes is the size of the external data of Table.
const TableBytes = 16 << 20

// WriteTable writes the external data of Table into its folder. All but row 7 is a hole, which takes no place on the disk.
func WriteTable(t testing.TB, dir string) {
	t.Helper()
	const width = 256
	row := make([]byte, 0, 4*width)
	for i := range width {
		row = binary.LittleEndian.AppendUint32(row, math.Float32bits(float32(i+1)))
	}
	file, err := os.Create(filepath.Join(dir, "model.onnx.data"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteAt(row, 7*int64(len(row)))
	if err := errors.Join(err, file.Truncate(TableBytes), file.Close()); err != nil {
		t.Fatal(err)
	}
}
