package activities

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/internal/script"
	"github.com/sluiceml/sluice/internal/secret"
	"github.com/sluiceml/sluice/pipelines"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/artifact"
)

// Cleaner holds the activity of the clean kind.
type Cleaner struct {
	Store *store.Store
	// State is the state folder.
	State string
	// Engine knows the environments and parameters of submissions, and Secrets finds the secrets that these environments name.
	Engine  *Engine
	Secrets *secret.Resolver
	// Executable is this program, which is started again as the child that cleans.
	Executable string
}

// Clean runs a clean step in a child process and stores what it left as a dataset.
func (c *Cleaner) Clean(ctx context.Context, in contract.StepInput) (contract.StepOutput, error) {
	job, cleanup, err := c.job(ctx, in)
	if err != nil {
		return contract.StepOutput{}, typed(ctx, err)
	}
	defer cleanup()
	var at atomic.Pointer[pipelines.Progress]
	defer Heartbeat(ctx, func() any { return cleanProgress(at.Load()) })()
	if job.Spec, err = c.bring(ctx, in, job.Spec, filepath.Dir(job.OutputDir)); err != nil {
		return contract.StepOutput{}, typed(ctx, err)
	}
	out, err := pipelines.Run(ctx, c.Executable, job, func(p pipelines.Progress) { at.Store(&p) })
	var fault *pipelines.Error
	switch {
	case ctx.Err() != nil:
		return contract.StepOutput{}, ctx.Err()
	case errors.As(err, &fault):
		return contract.StepOutput{}, contract.Error(fault.Type, fault.Message, nil)
	case err != nil:
		return contract.StepOutput{}, err
	}
	return c.keep(ctx, job, out)
}

// job lays the attempt's folder out.
func (c *Cleaner) job(ctx context.Context, in contract.StepInput) (pipelines.Job, func(), error) {
	var spec dsl.Clean
	if err := LoadSpec(ctx, c.Store, in, &spec); err != nil {
		return pipelines.Job{}, nil, err
	}
	sub, err := c.Engine.submission(ctx, in.Submission)
	if err != nil {
		return pipelines.Job{}, nil, err
	}
	secrets, err := c.Secrets.Resolve(ctx, sub.program.Environment(), in.Secrets)
	if err != nil {
		return pipelines.Job{}, nil, contract.SecretError(err)
	}
	dir, cleanup, err := AttemptDir(ctx, c.State, in)
	return pipelines.Job{
		Spec: spec, Secrets: secrets.ByVariable, Params: sub.params, ParamTypes: sub.program.Pipeline().Params,
		OutputDir: filepath.Join(dir, "dataset"), DeadLetterDir: filepath.Join(dir, "rejected"), ProfileFile: filepath.Join(dir, "profile.json"),
		Memory: sub.program.Environment().Clean.Memory, Runner: pipelines.RunnerOf(sub.program.Environment().Clean),
	}, cleanup, err
}

// bring fetches the inputs and fills their folders into the transforms.
func (c *Cleaner) bring(ctx context.Context, in contract.StepInput, spec dsl.Clean, dir string) (dsl.Clean, error) {
	dirs, err := script.FetchInputs(ctx, c.Store, spec.Inputs, filepath.Join(dir, "inputs"))
	if err != nil {
		return spec, err
	}
	filled, err := spec.WithInputs(dirs)
	if err != nil {
		return spec, &script.UserError{Message: err.Error()}
	}
	return filled, nil
}

// keep stores the dataset and the dead letter.
func (c *Cleaner) keep(ctx context.Context, job pipelines.Job, out dsl.CleanOutput) (contract.StepOutput, error) {
	var err error
	meta := map[string]string{"rows": strconv.FormatInt(out.Rows.Kept, 10)}
	for part, n := range out.Splits {
		meta["split."+part] = strconv.FormatInt(n, 10)
	}
	if out.Dataset, err = c.Store.PutTree(ctx, artifact.Dataset, job.OutputDir, meta, nil); err != nil {
		return contract.StepOutput{}, typed(ctx, err)
	}
	if out.Statistics, err = c.putFile(ctx, job.ProfileFile); err != nil {
		return contract.StepOutput{}, typed(ctx, err)
	}
	if out.Rows.Rejected > 0 {
		if out.DeadLetter, err = c.Store.PutTree(ctx, artifact.Dataset, job.DeadLetterDir, nil, nil); err != nil {
			return contract.StepOutput{}, typed(ctx, err)
		}
	}
	return StoreOutputs(ctx, c.Store, out)
}

func (c *Cleaner) putFile(ctx context.Context, path string) (digest string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	digest, _, err = c.Store.PutBlob(ctx, f)
	return digest, err
}

func cleanProgress(p *pipelines.Progress) contract.Progress {
	if p == nil {
		return contract.Progress{Text: "bringing the input", Share: -1}
	}
	return contract.Progress{Text: p.String(), Share: p.Done}
}
