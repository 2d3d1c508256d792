// Command compile measures how long a compile step takes to build engines ahead of time with TensorRT for RTX, against a program that builds the
// same engine and nothing else. README.md says what exactly each figure is. It is run from the repository's root.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceml/sluice/bench/internal/compare"
	"github.com/sluiceml/sluice/compile"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/proc"
)

// times is how often each engine is built. The figures are medians.
const times = 5

// model is one of models.py.
type model struct {
	name, input      string
	inputs           []string // where the engine begins, if not at the model's beginning
	least, opt, most []int    // the shapes of input
}

var models = []model{
	{name: "spam", input: "ids", inputs: []string{"ids"}, least: []int{1, 1}, opt: []int{8, 100}, most: []int{16, 601}},
	{name: "convolutions", input: "x", least: []int{1, 3, 64, 64}, opt: []int{8, 3, 64, 64}, most: []int{16, 3, 64, 64}},
	{name: "transformer", input: "x", least: []int{1, 64, 256}, opt: []int{8, 64, 256}, most: []int{16, 64, 256}},
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == compile.Arg {
		if err := compile.Main(context.Background(), os.Stdin, os.Stdout); err != nil {
			compare.Say("%v", err)
			os.Exit(1)
		}
		return
	}
	compare.Main(run)
}

func run(ctx context.Context) error {
	rtx, err := filepath.Abs(filepath.Join(os.Getenv("SLUICE_CACHE"), "rtx"))
	if err != nil {
		return err
	}
	if err := os.Setenv("PYTHONPATH", rtx); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	python := filepath.Join(os.Getenv("SLUICE_PYTHON_ENV"), "bin", "python3")
	if err := compare.Run(ctx, proc.Command{Path: python, Args: []string{"bench/compile/models.py", dir}}); err != nil {
		return err
	}
	for _, m := range models {
		if err := m.measure(ctx, python, filepath.Join(dir, m.name)); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

// measure builds the model's engine in both ways by turns.
func (m model) measure(ctx context.Context, python, dir string) error {
	graph, err := m.graph(ctx, python, dir)
	if err != nil {
		return err
	}
	var ours, floors []float64
	for i := range times {
		began := time.Now()
		if err := m.build(ctx, python, dir, filepath.Join(dir, strconv.Itoa(i))); err != nil {
			return err
		}
		ours = append(ours, time.Since(began).Seconds())
		floor := []string{"bench/compile/floor.py", graph, "SM89", m.input, shape(m.least), shape(m.opt), shape(m.most)}
		began = time.Now()
		if err := compare.Run(ctx, proc.Command{Path: python, Args: floor}); err != nil {
			return err
		}
		floors = append(floors, time.Since(began).Seconds())
		compare.Say("%s: %.2f s, and %.2f s for the builder alone", m.name, ours[i], floors[i])
	}
	return compare.Show(times,
		compare.Figure{Name: "compile/rtx_build_s/" + m.name, Value: compare.Median(ours), Unit: "s"},
		compare.Figure{Name: "compile/rtx_floor_s/" + m.name, Value: compare.Median(floors), Unit: "s", Against: "TensorRT for RTX alone"},
	)
}

// build is a compile step with one engine.
func (m model) build(ctx context.Context, python, dir, to string) error {
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	bounds := func(dims []int) map[string][]int { return map[string][]int{m.input: dims} }
	engine := &spec.TensorRTVariant{
		Flavor: spec.FlavorRTX, Compute: []string{"8.9"}, Inputs: m.inputs,
		Shapes: &spec.TensorRTShapes{Min: bounds(m.least), Opt: bounds(m.opt), Max: bounds(m.most)},
	}
	job := compile.Job{
		Spec:  spec.CompileModel{Variants: map[string]spec.Variant{"engine": {TensorRT: engine}}},
		Model: filepath.Join(dir, "model"), Dataset: filepath.Join(dir, "rows"), Dir: to, Python: python, Executable: executable,
	}
	_, err = compile.Build(ctx, job)
	return err
}

// graph is the ONNX file that TensorRT reads: the model, or what follows the tensors at which the engine begins.
func (m model) graph(ctx context.Context, python, dir string) (string, error) {
	whole := filepath.Join(dir, "model", "model.onnx")
	if m.inputs == nil {
		return whole, nil
	}
	back := filepath.Join(dir, "back.onnx")
	cut := fmt.Sprintf("import onnx.utils; onnx.utils.extract_model(%q, %q, %q.split(), [o.name for o in onnx.load(%q).graph.output])",
		whole, back, strings.Join(m.inputs, " "), whole)
	return back, compare.Run(ctx, proc.Command{Path: python, Args: []string{"-c", cut}})
}

// shape writes dimensions as floor.py reads them.
func shape(dims []int) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(dims), "[]"), " ", "x")
}
