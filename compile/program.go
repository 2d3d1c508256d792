package compile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/offload"
	"github.com/sluiceml/sluice/internal/stepargs"
	"github.com/sluiceml/sluice/serving/onnx"
)

// Program is the process that builds the variants on a node of a pool, as spec.CompileModel's Train has it started. What it leaves in the
// node's output folder is for Judge. Its error is a trouble of the machine: what is wrong with the model is in the report.
func Program(ctx context.Context, args []string, stdout io.Writer) error {
	job, err := jobOf(args)
	if err != nil {
		return err
	}
	if err := useLibraryOfPython(); err != nil {
		return err
	}
	if err := os.Mkdir(job.Dir, 0o755); err != nil {
		return err
	}
	job.Progress = func(text string) {
		fmt.Fprintln(stdout, text)                                                 //nolint:errcheck // it is for the log
		_ = stepargs.WriteProgress(args, stepargs.Progress{Text: text, Share: -1}) // what cannot be shown is still done
	}
	report, err := Build(ctx, job)
	if unfit, ok := errors.AsType[*ModelError](err); ok {
		report = offload.BuildReport{Fault: unfit.Message}
	} else if err != nil {
		return err
	}
	if err := stepargs.WriteReport(job.Dir, offload.BuildFile, report); err != nil {
		return fmt.Errorf("write the report on the variants: %w", err)
	}
	return nil
}

// jobOf reads the job from the arguments: the file with the step's spec, and NAME=FOLDER for each of its inputs.
func jobOf(args []string) (job Job, err error) {
	resolved, dirs, err := stepargs.Read[spec.CompileModel](args)
	if err != nil {
		return job, err
	}
	job.Spec = resolved
	job.Calibrations = map[string]string{}
	for name, ref := range job.Spec.Inputs() {
		if dirs[name] == "" {
			return job, fmt.Errorf("there is no folder for the input %s", name)
		}
		job.Calibrations[ref.Digest] = dirs[name]
	}
	job.Model, job.Dataset = dirs[spec.CompileInputModel], dirs[spec.CompileInputSamples]
	job.Dir = filepath.Join(os.Getenv("SLUICE_OUTPUT_DIR"), spec.CompileBuilt)
	job.Python = "python3" // the first in PATH is that of the step
	job.Executable, err = os.Executable()
	return job, err
}

// useLibraryOfPython takes ONNX Runtime's library from the environment whose tools are used, if it has one and none is named.
func useLibraryOfPython() error {
	python, err := exec.LookPath("python3")
	if err != nil || os.Getenv(onnx.LibraryVariable) != "" {
		return nil //nolint:nilerr // without Python the tools say what is missing
	}
	if library := onnx.LibraryIn(filepath.Dir(filepath.Dir(python))); library != "" {
		return os.Setenv(onnx.LibraryVariable, library)
	}
	return nil
}
