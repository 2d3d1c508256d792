package compile

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/internal/proc"
	"github.com/sluiceml/sluice/serving/onnx"
)

//go:embed build.py
var buildScript string

// errorLines is how much of a tool's last words goes into an error.
const errorLines = 20

// buildJob is what build.py reads.
type buildJob struct {
	Source    string `json:"source"`
	Target    string `json:"target"`
	Optimize  string `json:"optimize"`
	Precision string `json:"precision"`
}

// build writes a variant of the source model to target.
func build(ctx context.Context, python, source, target string, v dsl.Variant) error {
	if v.ONNX == nil {
		return &ModelError{"it does not say how it is built; give it `onnx: {}`"}
	}
	job, err := json.Marshal(buildJob{
		Source:    source,
		Target:    target,
		Optimize:  cmp.Or(v.ONNX.Optimize, "all"),
		Precision: cmp.Or(v.ONNX.Precision, "fp32"),
	})
	if err != nil {
		return err
	}
	said := proc.NewTail(errorLines)
	child, err := proc.Start(ctx, proc.Command{
		Path: python, Args: []string{"-c", buildScript}, Dir: filepath.Dir(target),
		Env:   append(os.Environ(), "PYTHONHASHSEED=0", onnx.NoTelemetry+"=1"), // the order of a set must not get into a model
		Stdin: bytes.NewReader(job), Stdout: said, Stderr: said,
	})
	if err != nil {
		return fmt.Errorf("start the project's Python: %w", err)
	}
	exit, err := child.Wait()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return err
	case !exit.OK():
		return ended("ONNX Runtime's tools", exit, said)
	}
	return nil
}
