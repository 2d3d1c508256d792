package activities

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/sluiceml/sluice/activities/engine"
	"github.com/sluiceml/sluice/compile"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/heartbeat"
	"github.com/sluiceml/sluice/internal/script"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training/protocol"
)

// Compiler has the activity of the kind `compile`.
type Compiler struct {
	Store *store.Store
	// State is the state folder.
	State string
	// Engine loads the submissions, and Pythons finds the virtual environments with onnx and onnxruntime.
	Engine  *engine.Engine
	Pythons *script.Pythons
	// Executable is the path of this program, which is started as the child process that measures.
	Executable string
}

// Compile builds the variants of a compile step, compares them with the source model and measures them.
func (c *Compiler) Compile(ctx context.Context, in record.StepInput) (record.StepOutput, error) {
	spec, err := record.LoadSpec[spec.CompileModel](ctx, c.Store, in)
	if err != nil {
		return record.StepOutput{}, err
	}
	sub, err := c.Engine.Submission(ctx, in.Submission)
	if err != nil {
		return record.StepOutput{}, err
	}
	log := openLog(ctx, c.Store, in)
	defer log.Close()
	dir, cleanup, err := AttemptDir(ctx, c.State, in)
	if err != nil {
		return record.StepOutput{}, err
	}
	defer cleanup()
	var says atomic.Value
	says.Store("fetching the model")
	heartbeat.Show(ctx, func() any { return protocol.Progress{Text: says.Load().(string), Share: -1} })
	job := compile.Job{
		Spec: spec, Model: filepath.Join(dir, "model"), Dataset: filepath.Join(dir, "dataset"), Dir: filepath.Join(dir, "variants"),
		Store: c.Store, Python: pythonIn(c.Pythons.For(sub.Python)), Executable: c.Executable,
		Progress: func(text string) {
			says.Store(text)
			fmt.Fprintln(log.Program(), text) //nolint:errcheck // it never fails
		},
	}
	err = errors.Join(
		c.Store.Fetch(ctx, spec.Model, job.Model), c.Store.Fetch(ctx, spec.Samples.Dataset, job.Dataset), os.Mkdir(job.Dir, 0o755))
	if err != nil {
		return record.StepOutput{}, Typed(ctx, err)
	}
	out, err := compile.Run(ctx, job)
	if err != nil {
		return record.StepOutput{}, TypedOfCompile(ctx, err)
	}
	return record.StoreOutputs(ctx, c.Store, out)
}

// TypedOfCompile converts an error of package compile to the type that retries and exit codes depend on.
func TypedOfCompile(ctx context.Context, err error) error {
	var outside *compile.ToleranceError
	var unfit *compile.ModelError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &outside):
		return fault.New(fault.Gate, err.Error(), nil)
	case errors.As(err, &unfit):
		return fault.New(fault.User, err.Error(), nil)
	}
	return Typed(ctx, err)
}

// pythonIn is the interpreter of a virtual environment; without one, that in PATH.
func pythonIn(env string) string {
	if env == "" {
		return "python3"
	}
	return filepath.Join(env, "bin", "python3")
}
