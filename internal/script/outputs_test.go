package script

import (
	"errors"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/secret"
)

func TestCollect(t *testing.T) {
	s := openStore(t)
	output := folder(t, map[string]string{
		"outputs.json": `{"rows": 12, "seed": 9007199254740993, "batch": 1e3, "whole": 2, "share": 0.5, "best": "a", "ok": true, "more": [1]}`,
		"model/w.bin":  "weights", "onnx/model.onnx": "onnx", "onnx/notes.txt": "not asked for",
	})
	got, err := Collect(t.Context(), s, map[string]spec.OutputDecl{
		"rows": {Type: "int"}, "seed": {Type: "int"}, "batch": {Type: "int"}, "whole": {Type: "double"}, "share": {Type: "double"}, "best": {Type: "string"}, "ok": {Type: "bool"},
		"model": {Type: "model", Path: "model"}, "onnx": {Type: "model", Path: "onnx/model.onnx"},
	}, output)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"rows": int64(12), "seed": int64(9007199254740993), "batch": int64(1000), "whole": int64(2), "share": 0.5, "best": "a", "ok": true,
		"model": put(t, s, artifact.Model, map[string]string{"w.bin": "weights"}),
		"onnx":  put(t, s, artifact.Model, map[string]string{"model.onnx": "onnx"}), // of a single file: that file alone
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
}

func TestCollectNeedsNoFileForNothing(t *testing.T) {
	got, err := Collect(t.Context(), openStore(t), nil, t.TempDir())
	if err != nil || len(got) != 0 {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestCollectRefuses(t *testing.T) {
	tests := []struct {
		name   string
		values string
		decl   spec.OutputDecl
		says   []string
	}{
		{"a value that is missing", `{"y": 1}`, spec.OutputDecl{Type: "int"}, []string{`"x"`, "does not contain it"}},
		{"no file of values", "", spec.OutputDecl{Type: "int"}, []string{`"x"`, "outputs.json"}},
		{"a value of null", `{"x": null}`, spec.OutputDecl{Type: "double"}, []string{"declared as double"}},
		{"a share for an int", `{"x": 1.5}`, spec.OutputDecl{Type: "int"}, []string{"declared as int", "1.5"}},
		{"an int of more than 64 bits", `{"x": 9223372036854775808}`, spec.OutputDecl{Type: "int"}, []string{"declared as int"}},
		{"a whole number that no int can hold", `{"x": 1e300}`, spec.OutputDecl{Type: "int"}, []string{"declared as int"}},
		{"a number that no double can hold", `{"x": 1e400}`, spec.OutputDecl{Type: "double"}, []string{"declared as double", "1e400"}},
		{"text for a number", `{"x": "1"}`, spec.OutputDecl{Type: "double"}, []string{"declared as double"}},
		{"a number for a text", `{"x": 1}`, spec.OutputDecl{Type: "string"}, []string{"declared as string", "the number 1"}},
		{"a text for a bool", `{"x": "true"}`, spec.OutputDecl{Type: "bool"}, []string{"declared as bool", `the text "true"`}},
		{"a number for a bool", `{"x": 1}`, spec.OutputDecl{Type: "bool"}, []string{"declared as bool"}},
		{"no JSON", `{"x": NaN}`, spec.OutputDecl{Type: "double"}, []string{"outputs.json is not a JSON object"}},
		{"a list", `[1]`, spec.OutputDecl{Type: "int"}, []string{"outputs.json is not a JSON object"}},
		{"two objects", "{\"x\": 1}\n\n{\"x\": 2}\n", spec.OutputDecl{Type: "int"}, []string{"outputs.json must hold one JSON object", `line 3: {"x": 2}`}},
		{"an object and no JSON", `{"x": 1} garbage }{`, spec.OutputDecl{Type: "int"}, []string{"outputs.json must hold one JSON object", "line 1: garbage }{"}},
		{"too much", `{"y": "` + strings.Repeat("a", maxValues) + `"}`, spec.OutputDecl{Type: "int"}, []string{"larger than 1 MiB", "dataset"}},
		{"an artifact that is missing", "", spec.OutputDecl{Type: "model", Path: "m/model"}, []string{`"x"`, "did not create $SLUICE_OUTPUT_DIR/m/model"}},
		{"a path that leads out", "", spec.OutputDecl{Type: "dataset", Path: "../work"}, []string{"outside its folder"}},
	}
	s := openStore(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			files := map[string]string{}
			if tt.values != "" {
				files["outputs.json"] = tt.values
			}
			_, err := Collect(t.Context(), s, map[string]spec.OutputDecl{"x": tt.decl}, folder(t, files))
			refused(t, err, tt.says...)
		})
	}
}

// What a program leaves in place of an output is its own fault, and said with the output's name. A link does not carry a file of the machine
// into an artifact.
func TestCollectRefusesWhatIsNoFile(t *testing.T) {
	outside := filepath.Join(folder(t, map[string]string{"secret": "key"}), "secret")
	link := func(to string) func(string) error { return func(file string) error { return os.Symlink(to, file) } }
	pipe := func(file string) error { return syscall.Mkfifo(file, 0o600) }
	mkdir := func(file string) error { return os.MkdirAll(file, 0o700) }
	for name, tt := range map[string]struct {
		at   string // what is made, in the output folder
		make func(file string) error
		decl spec.OutputDecl
		want string
	}{
		"a link out": {
			"file", link(outside),
			spec.OutputDecl{Type: "model", Path: "file"},
			"file in $SLUICE_OUTPUT_DIR is reached through a symbolic link that leads out of that folder; copy the files into it",
		},
		"a link to a folder elsewhere": {
			"folder", link(filepath.Dir(outside)),
			spec.OutputDecl{Type: "dataset", Path: "folder"},
			"folder in $SLUICE_OUTPUT_DIR is reached through a symbolic link that leads out of that folder; copy the files into it",
		},
		"a file behind a link to a folder elsewhere": {
			"folder", link(filepath.Dir(outside)),
			spec.OutputDecl{Type: "model", Path: "folder/secret"},
			"folder/secret in $SLUICE_OUTPUT_DIR is reached through a symbolic link that leads out of that folder; copy the files into it",
		},
		"a link out, in a folder": {
			"model/link", link(outside),
			spec.OutputDecl{Type: "model", Path: "model"},
			"model/link in $SLUICE_OUTPUT_DIR is a symbolic link that is absolute or leads out of the folder, but an output must be a file or a folder of files",
		},
		"a link to nothing": {
			"model/link", link("nothing"),
			spec.OutputDecl{Type: "dataset", Path: "model/link"},
			"model/link in $SLUICE_OUTPUT_DIR is a symbolic link to a file that does not exist, but an output must be a file or a folder of files",
		},
		"a link to itself": {
			"file", link("file"),
			spec.OutputDecl{Type: "dataset", Path: "file"},
			"file in $SLUICE_OUTPUT_DIR is a symbolic link that leads back to itself, but an output must be a file or a folder of files",
		},
		"a named pipe": {
			"model/pipe", pipe,
			spec.OutputDecl{Type: "dataset", Path: "model/pipe"},
			"model/pipe in $SLUICE_OUTPUT_DIR is a named pipe, but an output must be a file or a folder of files",
		},
		"a named pipe in a folder": {
			"model/pipe", pipe,
			spec.OutputDecl{Type: "checkpoint", Path: "model"},
			"model/pipe in $SLUICE_OUTPUT_DIR is a named pipe, but an output must be a file or a folder of files",
		},
		"a name that is not UTF-8": {
			"model/caf\xe9", mkdir,
			spec.OutputDecl{Type: "model", Path: "model"},
			`"model/caf\xe9" in $SLUICE_OUTPUT_DIR has a name that is not valid UTF-8; let the program write it under another name`,
		},
		"a path below a file": {
			"file", func(file string) error { return os.WriteFile(file, nil, 0o600) },
			spec.OutputDecl{Type: "model", Path: "file/model"},
			"the program did not create $SLUICE_OUTPUT_DIR/file/model",
		},
		"a model without files": {
			"empty/inner", mkdir,
			spec.OutputDecl{Type: "model", Path: "empty"},
			"the program created no file in $SLUICE_OUTPUT_DIR/empty, but a model needs at least one",
		},
		"a checkpoint without files": {
			"empty", mkdir,
			spec.OutputDecl{Type: "checkpoint", Path: "empty"},
			"the program created no file in $SLUICE_OUTPUT_DIR/empty, but a checkpoint needs at least one",
		},
	} {
		t.Run(name, func(t *testing.T) {
			output := folder(t, map[string]string{"model/w.bin": ""})
			if err := tt.make(filepath.Join(output, tt.at)); err != nil {
				t.Fatal(err)
			}
			_, err := Collect(t.Context(), openStore(t), map[string]spec.OutputDecl{"x": tt.decl}, output)
			refused(t, err)
			if diff := cmp.Diff(`output "x": `+tt.want, err.Error()); diff != "" {
				t.Errorf("the message (-want +got):\n%s", diff)
			}
		})
	}
}

// A dataset of no rows is a result, and a link within the output folder is what it leads to.
func TestCollectTakes(t *testing.T) {
	output := folder(t, map[string]string{"step-1/w.bin": "weights"})
	if err := errors.Join(os.Mkdir(filepath.Join(output, "rows"), 0o700), os.Symlink("step-1", filepath.Join(output, "latest"))); err != nil {
		t.Fatal(err)
	}
	s := openStore(t)
	got, err := Collect(t.Context(), s, map[string]spec.OutputDecl{"rows": {Type: "dataset", Path: "rows"}, "model": {Type: "model", Path: "latest"}}, output)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"rows": put(t, s, artifact.Dataset, nil), "model": put(t, s, artifact.Model, map[string]string{"w.bin": "weights"})}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
}

// Opened, a named pipe would be waited for.
func TestCollectReadsNoPipe(t *testing.T) {
	output := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(output, valuesFile), 0o600); err != nil {
		t.Fatal(err)
	}
	s, done := openStore(t), make(chan error, 1)
	go func() {
		_, err := Collect(t.Context(), s, map[string]spec.OutputDecl{"x": {Type: "int"}}, output)
		done <- err
	}()
	select {
	case err := <-done:
		refused(t, err, "outputs.json in $SLUICE_OUTPUT_DIR is not a regular file")
	case <-time.After(10 * time.Second):
		t.Fatal("it waits for somebody to write to the pipe")
	}
}

func TestMetrics(t *testing.T) {
	path := filepath.Join(folder(t, map[string]string{
		"m": `{"step": 1, "of": 2, "loss": 0.9}` + "\n\n" + `{"step": 2, "loss": 0.3, "f1": 1, "precision": 0.2}` + "\n" + `{"f1": 0.5}`,
	}), "m")
	got, err := Metrics(path, []string{"loss", "f1"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]float64{"loss": 0.3, "f1": 0.5}, got); diff != "" {
		t.Errorf("the last values (-want +got):\n%s", diff)
	}
	none, err := Metrics(filepath.Join(t.TempDir(), "never written"), nil)
	if err != nil || len(none) != 0 {
		t.Errorf("got %v, %v", none, err)
	}
}

func TestMetricsRefuses(t *testing.T) {
	tests := []struct {
		name, lines string
		says        []string
	}{
		{"a metric that is never reported", `{"loss": 1}`, []string{`"f1"`, "never wrote"}},
		{"a metric by another name", "{}\n" + `{"f1": 1, "lost": 1}`, []string{`"loss"`, "never wrote", "not in `metrics:`: lost"}},
		{"no JSON", "loss=1", []string{"line 1", "loss=1"}},
		{"what Python writes for a loss that diverged", `{"loss": NaN}`, []string{"line 1", "NaN"}},
		{"text", `{"loss": "1"}`, []string{"line 1", "numbers"}},
		{"a list", `[1]`, []string{"line 1", "object"}},
		{"null, which is no empty object", `null`, []string{"line 1", "object"}},
		{"null, which is no zero", `{"loss": null}`, []string{"line 1", `"loss"`, "without a number"}},
		{"half a line", `{"loss": 1}` + "\n" + `{"loss"`, []string{"line 2"}},
		{"a line without end", `{"loss": ` + strings.Repeat("1", maxLine), []string{"longer than"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(folder(t, map[string]string{"m": tt.lines}), "m")
			_, err := Metrics(path, []string{"loss", "f1"})
			refused(t, err, tt.says...)
		})
	}
}

// A disk that fails is not the user's fault.
func TestMetricsThatCannotBeRead(t *testing.T) {
	broken := errors.New("input/output error")
	err := scanMetrics(io.MultiReader(strings.NewReader(`{"loss": 1}`), iotest.ErrReader(broken)), []string{"loss"}, map[string]float64{}, map[string]bool{})
	if !errors.Is(err, broken) || fault.TypeOf(err) == fault.User {
		t.Errorf("got %v, want %v as nobody's fault", err, broken)
	}
}

// FuzzScanMetrics: whatever a program writes, it is taken or it is the user's error, and what is taken was declared and is a number.
func FuzzScanMetrics(f *testing.F) {
	for _, seed := range []string{"", "{}\n", `{"step": 1, "loss": 0.5}`, `{"loss": null}`, `{"loss": 1e999}`, `{"loss": 1, "loss": 2}`, "\r\n{\"f1\":-0}", "null"} {
		f.Add(seed)
	}
	declared := []string{"f1", "loss"}
	f.Fuzz(func(t *testing.T, text string) {
		last := map[string]float64{}
		if err := scanMetrics(strings.NewReader(text), declared, last, map[string]bool{}); err != nil {
			refused(t, err, "$SLUICE_METRICS")
		}
		for _, name := range slices.Sorted(maps.Keys(last)) {
			if v := last[name]; !slices.Contains(declared, name) || math.IsNaN(v) || math.IsInf(v, 0) {
				t.Errorf("%q reports %s = %v", text, name, v)
			}
		}
	})
}

func TestRefuseSecrets(t *testing.T) {
	mask := secret.NewMask("swordfish", "12345678")
	fine := map[string]any{"rows": 12.0, "ok": true, "best": "fish", "model": artifact.Ref{}, "metrics": map[string]float64{"f1": 0.5}}
	if err := RefuseSecrets(fine, mask); err != nil {
		t.Error(err)
	}
	for says, outputs := range map[string]map[string]any{
		`output "best" contains`: {"best": "a swordfish"},
		`output "rows" contains`: {"rows": 12345678.0},
		`metric "loss" contains`: {"metrics": map[string]float64{"f1": 1, "loss": 12345678}},
	} {
		if err := RefuseSecrets(outputs, mask); fault.TypeOf(err) != fault.User || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "swordfish") {
			t.Errorf("got %v, want %s", err, says)
		}
	}
}
