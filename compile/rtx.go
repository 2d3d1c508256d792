package compile

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluiceml/sluice/compile/trtexec"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/serving/oip"
)

//go:embed rtx.py
var rtxScript string

// rtxJob is what rtx.py reads.
type rtxJob struct {
	Graph     string               `json:"graph"`
	Engine    string               `json:"engine"`
	Compute   []string             `json:"compute"`
	Workspace int64                `json:"workspace"`
	Shapes    *spec.TensorRTShapes `json:"shapes"`
	Samples   string               `json:"samples"`
	Outputs   string               `json:"outputs"`
	Answer    string               `json:"answer"`
}

// rtxAnswer is what rtx.py writes.
type rtxAnswer struct {
	Version    string    `json:"version"`
	Unmeasured string    `json:"unmeasured"` // the reason
	GPU        string    `json:"gpu"`
	Driver     string    `json:"driver"`
	Seconds    []float64 `json:"seconds"`
}

// buildRTX has TensorRT for RTX build the engine, and measures it if this machine has a GPU on which it runs.
func (e *engine) buildRTX(ctx context.Context) (made, error) {
	graph, err := e.typedGraph(ctx)
	if err != nil {
		return made{}, err
	}
	if !filepath.IsAbs(graph) {
		graph = e.path(graph)
	}
	asked := rtxJob{
		Graph: graph, Engine: e.file, Workspace: int64(e.spec.Workspace), Shapes: e.spec.Shapes,
		Samples: filepath.Join(e.dir, inputsFile), Outputs: e.path(outputsFile), Answer: e.path("answer.json"),
	}
	for _, c := range e.spec.Compute {
		if c = spec.ComputeOf(c); !slices.Contains(asked.Compute, c) {
			asked.Compute = append(asked.Compute, c)
		}
	}
	if err := runProgram(ctx, e.job.Python, rtxScript, e.scratch, asked); err != nil {
		return made{}, err
	}
	raw, err := os.ReadFile(asked.Answer)
	if err != nil {
		return made{}, err
	}
	var answer rtxAnswer
	if err := json.Unmarshal(raw, &answer); err != nil {
		return made{}, fmt.Errorf("the answer of TensorRT for RTX: %w", err)
	}
	if err := e.keepFront(); err != nil {
		return made{}, err
	}
	p := trtexec.Platform{GPU: answer.GPU, ComputeCapability: strings.Join(asked.Compute, ", "), Driver: answer.Driver, TensorRT: answer.Version}
	m := made{file: e.file, meta: e.describe(p).Meta(), engine: e.output(p), measured: &Measured{}}
	if answer.Unmeasured != "" {
		e.job.Progress("not measured: " + answer.Unmeasured)
		return m, nil
	}
	*m.measured, err = e.measuredRTX(answer, asked.Outputs)
	return m, err
}

// measuredRTX compares the engine's outputs with the source model's.
func (e *engine) measuredRTX(answer rtxAnswer, outputs string) (Measured, error) {
	var latencies []time.Duration
	for _, s := range answer.Seconds {
		latencies = append(latencies, time.Duration(s*float64(time.Second)))
	}
	slices.Sort(latencies)
	measured := measuredBy(latencies)
	file, err := os.Open(outputs)
	if err != nil {
		return Measured{}, err
	}
	defer file.Close()
	parity, own := newParity(), json.NewDecoder(bufio.NewReader(file))
	for row, err := range e.samples() {
		if err != nil {
			return Measured{}, err
		}
		var all, ordered []oip.Tensor
		if err := own.Decode(&all); err != nil {
			return Measured{}, fmt.Errorf("the engine's outputs for sample %d: %w", parity.rows+1, err)
		}
		for _, want := range row.outputs {
			at := slices.IndexFunc(all, func(t oip.Tensor) bool { return t.Name == want.Name })
			if at < 0 {
				return Measured{}, &ModelError{fmt.Sprintf("the engine has no output %q", want.Name)}
			}
			ordered = append(ordered, all[at])
		}
		if err := parity.add(e.job.Spec.Compare, row.outputs, ordered); err != nil {
			return Measured{}, &ModelError{fmt.Sprintf("sample %d: %v", parity.rows+1, err)}
		}
	}
	if own.More() {
		return Measured{}, errors.New("the engine has outputs for more rows than there are samples")
	}
	measured.Parity = parity.result()
	return measured, nil
}
