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
	"strings"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/proc"
	"github.com/sluiceml/sluice/serving/onnx"
)

//go:embed build.py
var buildScript string

// errorLines is how much of a tool's last words goes into an error.
const errorLines = 20

const (
	defaultCalibrationSplit = "train"
	defaultCalibrationCount = 200
)

// externalSuffix is what build.py puts behind a model's name for the file with its external data.
const externalSuffix = ".data"

// buildJob is what build.py reads.
type buildJob struct {
	Source      string   `json:"source"`
	Target      string   `json:"target"`
	Optimize    string   `json:"optimize"`
	Precision   string   `json:"precision"`
	KeepFP32    []string `json:"keep_fp32"`
	Calibration string   `json:"calibration"` // file of rows, as the child writes them
	Explicit    bool     `json:"explicit"`    // quantise as TensorRT reads it
	// Inputs, when not nil, has the source cut in two at these tensors.
	Inputs []string `json:"inputs"`
	Front  string   `json:"front"`
}

// faultCode is the exit code of build.py and rtx.py where the model or the job is at fault, and its last line says how.
const faultCode = 3

// buildONNX writes a variant of the source model to target. scratch is a folder for what is needed on the way.
func (job Job) buildONNX(ctx context.Context, source, target, scratch string, v spec.ONNXVariant) error {
	b := buildJob{
		Source: source, Target: target, Precision: cmp.Or(v.Precision, "fp32"), KeepFP32: append([]string{}, v.KeepFP32...),
		Optimize: v.Optimize,
	}
	switch {
	case b.Precision == "fp16":
		b.Optimize = cmp.Or(b.Optimize, "none") // operators are called as in the source model
	case v.Calibration != nil:
		b.Optimize = cmp.Or(b.Optimize, "basic")
	default:
		b.Optimize = cmp.Or(b.Optimize, "all")
	}
	if v.Calibration != nil {
		var err error
		if b.Calibration, err = job.calibrationRows(ctx, cutModel{Model: source}, scratch, *v.Calibration); err != nil {
			return err
		}
	}
	return runTools(ctx, job.Python, b)
}

// calibrationRows writes the rows of a calibration as inputs of a model, and returns the file.
func (job Job) calibrationRows(ctx context.Context, of cutModel, scratch string, c spec.Calibration) (string, error) {
	dataset, file := job.Calibrations[c.Dataset.Digest], filepath.Join(scratch, "calibration.jsonl")
	if dataset == "" {
		dataset = filepath.Join(scratch, "dataset")
		if err := job.Store.Fetch(ctx, c.Dataset, dataset); err != nil {
			return "", fmt.Errorf("fetch the calibration dataset: %w", err)
		}
	}
	samples := spec.Samples{Split: cmp.Or(c.Split, defaultCalibrationSplit), Count: cmp.Or(c.Count, defaultCalibrationCount)}
	_, err := job.inChild(ctx, request{Export: &Export{cutModel: of, Dataset: dataset, Samples: samples, File: file}})
	if err != nil {
		return "", named(err, "calibration")
	}
	return file, nil
}

// runTools runs build.py.
func runTools(ctx context.Context, python string, b buildJob) error {
	return runProgram(ctx, python, buildScript, filepath.Dir(b.Target), b)
}

// runProgram runs a program of this package, which reads its job from stdin.
func runProgram(ctx context.Context, python, script, dir string, job any) error {
	input, err := json.Marshal(job)
	if err != nil {
		return err
	}
	said := proc.NewTail(errorLines)
	child, err := proc.Start(ctx, proc.Command{
		Path: python, Args: []string{"-c", script}, Dir: dir,
		Env:   append(os.Environ(), "PYTHONHASHSEED=0", onnx.NoTelemetry+"=1"), // the order of a set must not get into a model
		Stdin: bytes.NewReader(input), Stdout: said, Stderr: said,
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
	case exit.Code == faultCode:
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		return &ModelError{lines[len(lines)-1]}
	case !exit.OK():
		return ended("a tool of the project's Python", exit, said.String())
	}
	return nil
}
