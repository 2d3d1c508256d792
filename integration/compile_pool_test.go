package integration

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/compile"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/stepargs"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
)

// compiling is a sandbox with a model, rows for it, and compile steps: each of bodies on the pool, as NAME_there, and if beside is set also
// beside the worker, as NAME.
func compiling(t *testing.T, beside bool, bodies map[string]string) *sandbox {
	t.Helper()
	steps := `steps:
  fetch:
    run:
      script: |
        mkdir -p "$SLUICE_OUTPUT_DIR"/{model,rows/train,rows/test}
        cp model.onnx "$SLUICE_OUTPUT_DIR/model"
        for split in train test; do cp $split.jsonl "$SLUICE_OUTPUT_DIR/rows/$split"; done
      outputs: {model: {type: model, path: model}, rows: {type: dataset, path: rows}}
`
	for name, body := range bodies {
		body = `model: "${steps.fetch.model}", ` + body
		steps += fmt.Sprintf("  %s_there: {compile: {pool: one, resources: {cpu: 1}, %s}}\n", name, body)
		if beside {
			steps += fmt.Sprintf("  %s: {compile: {%s}}\n", name, body)
		}
	}
	s := onPool(t, "{local: {nodes: 1}, usd_per_hour: {on_demand: 3600}}", steps)
	s.setModel(onnxtest.MLP)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, split := range []string{"train", "test"} {
		var lines strings.Builder
		for range 20 {
			x := make([]float64, 16)
			for i := range x {
				x[i] = rng.NormFloat64()
			}
			row, err := json.Marshal(map[string]any{"x": x})
			if err != nil {
				t.Fatal(err)
			}
			lines.WriteString(string(row) + "\n")
		}
		write(t, filepath.Join(s.project, split+".jsonl"), lines.String())
	}
	return s
}

// TestCompileOnPool: a compilation on a node that is lost is done on the next, and makes what it makes beside the worker.
func TestCompileOnPool(t *testing.T) {
	s := compiling(t, true, map[string]string{"pack": `samples: {dataset: "${steps.fetch.rows}", count: 10}, select: int8, variants: {
    fp32: {onnx: {}}, int8: {onnx: {precision: int8, calibration: {dataset: "${steps.fetch.rows}"}}, tolerance: {top1: 0.5}}}`})
	run := s.run()
	kill(t, run.awaitProcess(" "+stepargs.Compile), syscall.SIGSTOP) // so that the node is lost while it is at work
	kill(t, run.awaitProcess("sluice-agent"), syscall.SIGKILL)
	run.expect(0)
	record := s.show()
	outputs := func(step string) (out spec.CompileOutput) {
		t.Helper()
		record.Steps[step].decode(t, &out)
		out.Source.Latency, out.Source.Throughput = spec.Latency{}, 0
		for name, v := range out.Variants {
			if v.Latency.P50MS <= 0 || v.Latency.P99MS < v.Latency.P50MS || v.Throughput <= 0 {
				t.Errorf("%s: variant %s was not measured: %+v", step, name, v)
			}
			v.Latency, v.Throughput = spec.Latency{}, 0
			out.Variants[name] = v
		}
		return out
	}
	beside := outputs("pack")
	if diff := cmp.Diff(beside, outputs("pack_there")); diff != "" {
		t.Errorf("made on the pool, not beside the worker (-beside +pool):\n%s", diff)
	}
	if len(beside.Variants) != 2 || beside.Selected.Name != "int8" || beside.Variants["int8"].Model.IsZero() {
		t.Errorf("beside the worker it made %+v", beside)
	}
	account, cost := s.accountOf("pack_there")
	var ends []spec.GenerationEnd
	for _, g := range account.Generations {
		ends = append(ends, g.End)
	}
	if diff := cmp.Diff([]spec.GenerationEnd{spec.EndNodeLost, spec.EndFinished}, ends); diff != "" || cost <= 0 {
		t.Errorf("it cost %g; ends of generations (-want +got):\n%s", cost, diff)
	}
	s.start("logs", record.Run, "pack_there").expect(0).says("building int8", "measuring fp32, int8")

	s.run().expect(0)
	if again := s.show().Steps["pack_there"]; again.ReusedFrom != record.Run {
		t.Error("another run does it again")
	}
}

// TestCompileOnPoolFails: errors are those of a step beside the worker, with their types.
func TestCompileOnPoolFails(t *testing.T) {
	const samples = `samples: {dataset: "${steps.fetch.rows}", count: 10}, `
	s := compiling(t, true, map[string]string{
		"outside": samples + `variants: {int8: {onnx: {precision: int8}, tolerance: {max_abs: 0.0}}}`,
		"empty":   `samples: {dataset: "${steps.fetch.rows}", split: absent}, variants: {fp32: {onnx: {}}}`,
		"unknown": samples + `variants: {half: {onnx: {precision: fp16, keep_fp32: [Nonesuch]}}}`,
	})
	run := s.run()
	if code := run.wait(); code != 3 && code != 4 { // that of the step that fails first
		t.Fatalf("the run ended with %d", code)
	}
	record := s.show()
	for step, want := range map[string]string{"outside": "gate", "empty": "user", "unknown": "user"} {
		beside, there := record.Steps[step], record.Steps[step+"_there"]
		if diff := cmp.Diff(beside.Error, there.Error); diff != "" || there.ErrorType != want || beside.ErrorType != want || there.Attempts.Total != 1 {
			t.Errorf("%s: a %s error after %d attempts, beside the worker a %s error, want one of type %s (-beside +pool):\n%s",
				step, there.ErrorType, there.Attempts.Total, beside.ErrorType, want, diff)
		}
		if account, cost := s.accountOf(step + "_there"); len(account.Generations) != 1 || cost <= 0 {
			t.Errorf("%s cost %g, with generations %+v", step, cost, account.Generations)
		}
	}
}

// TestCompileOnPoolCanceled: a cancel leaves no process of a compilation on a node.
func TestCompileOnPoolCanceled(t *testing.T) {
	s := compiling(t, false, map[string]string{"pack": `samples: {dataset: "${steps.fetch.rows}"}, variants: {fp32: {onnx: {}}}`})
	run := s.run()
	kill(t, run.awaitProcess(" "+compile.Arg), syscall.SIGSTOP)
	s.start("cancel", run.runID()).expect(0)
	run.wait()
	account, _ := s.accountOf("pack_there")
	if got := s.show().Steps["pack_there"].Status; got != string(spec.StatusCanceled) || account.Generations[0].End != spec.EndCanceled {
		t.Errorf("it is %s, with generations %+v", got, account.Generations)
	}
	for _, program := range []string{stepargs.Compile, compile.Arg, "sluice-agent"} {
		if left := s.processes(program); len(left) > 0 {
			t.Errorf("processes %q are left: %v", program, left)
		}
	}
}
