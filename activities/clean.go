package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/sluiceml/sluice/activities/adopt"
	"github.com/sluiceml/sluice/activities/engine"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/heartbeat"
	"github.com/sluiceml/sluice/internal/script"
	"github.com/sluiceml/sluice/internal/secret"
	"github.com/sluiceml/sluice/pipelines"
	"github.com/sluiceml/sluice/pipelines/format"
	"github.com/sluiceml/sluice/pipelines/meter"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training/protocol"
)

// Cleaner has the activity of the kind `clean`.
type Cleaner struct {
	Store *store.Store
	// State is the state folder.
	State string
	// Engine loads the environments and parameters of submissions, and Secrets resolves the secrets that these environments name.
	Engine  *engine.Engine
	Secrets *secret.Resolver
	// Pythons are the virtual environments whose programs come first in PATH.
	Pythons *script.Pythons
	// Executable is the path of this program, which is started as the child process that cleans.
	Executable string
}

// cleaning is one attempt at a clean step.
type cleaning struct {
	pipelines.Job
	dir  string
	env  *spec.Environment
	mask *secret.Mask
	// contents are the digests of files that are read in place, by path, as far as they are known.
	contents map[string]string
	// unkeyed: the step's key was not made of the files that are read in place.
	unkeyed bool
}

// Clean runs a clean step in a child process and stores its output as a dataset.
func (c *Cleaner) Clean(ctx context.Context, in record.StepInput) (record.StepOutput, error) {
	log := openLog(ctx, c.Store, in)
	defer log.Close()
	job, cleanup, err := c.job(ctx, in)
	if err != nil {
		return record.StepOutput{}, Typed(ctx, err)
	}
	defer cleanup()
	var at atomic.Pointer[meter.Progress]
	heartbeat.Show(ctx, func() any { return cleanProgress(at.Load()) })
	if err := c.bring(ctx, in, job); err != nil {
		return record.StepOutput{}, Typed(ctx, err)
	}
	masked := job.mask.Writer(log.Program())
	defer masked.Close()
	job.Programs.Log = masked
	show := meter.Printer(masked)
	out, err := pipelines.Run(ctx, c.Executable, job.Job, func(p meter.Progress) {
		at.Store(&p)
		show(p)
	})
	ended, typed := fault.As(err)
	switch {
	case ctx.Err() != nil:
		return record.StepOutput{}, ctx.Err()
	case typed:
		return record.StepOutput{}, fault.Masked(job.mask, fault.New(ended.Type, ended.Message, nil))
	case err != nil:
		return record.StepOutput{}, err
	}
	kept, err := c.keep(ctx, job.Job, out)
	kept.Unkeyed = job.unkeyed
	return kept, err
}

// job prepares the folder of the attempt.
func (c *Cleaner) job(ctx context.Context, in record.StepInput) (*cleaning, func(), error) {
	spec, err := record.LoadSpec[spec.Clean](ctx, c.Store, in)
	if err != nil {
		return nil, nil, err
	}
	sub, err := c.Engine.Submission(ctx, in.Submission)
	if err != nil {
		return nil, nil, err
	}
	secrets, err := resolveSecrets(ctx, c.Secrets, sub.Program.Environment(), in.Secrets)
	if err != nil {
		return nil, nil, secret.Typed(err)
	}
	dir, cleanup, err := AttemptDir(ctx, c.State, in)
	if err != nil {
		return nil, nil, err
	}
	if err := os.Mkdir(filepath.Join(dir, "account"), 0o700); err != nil {
		cleanup()
		return nil, nil, err
	}
	return &cleaning{dir: dir, env: sub.Program.Environment(), mask: secrets.Mask, Job: pipelines.Job{
		Spec: spec, Secrets: secrets.ByVariable,
		OutputDir: filepath.Join(dir, "dataset"), DeadLetterDir: filepath.Join(dir, "rejected"), ProfileFile: filepath.Join(dir, "profile.json"),
		AccountFile: filepath.Join(dir, "account", "account.jsonl"),
		Memory:      sub.Program.Environment().Clean.Memory, Runner: pipelines.RunnerOf(sub.Program.Environment().Clean),
	}}, cleanup, nil
}

// bring downloads the inputs, fills their folders into the transforms, and lists the files that are read in place. If the transforms run
// programs, it also downloads the workspace.
func (c *Cleaner) bring(ctx context.Context, in record.StepInput, job *cleaning) error {
	programs, err := transform.Execs(&job.Spec)
	if err != nil {
		return err
	}
	inputs := filepath.Join(job.dir, "inputs")
	var dirs map[string]string
	if len(programs) == 0 {
		dirs, err = script.FetchInputs(ctx, c.Store, job.Spec.Inputs, inputs)
	} else {
		dirs = map[string]string{}
		for name := range job.Spec.Inputs {
			dirs[name] = filepath.Join(inputs, name) // where the folder of a program has them
		}
		err = c.bringProgram(ctx, in, job)
	}
	if err != nil {
		return err
	}
	refs := job.Spec.Inputs
	if job.Spec, err = job.Spec.WithInputs(dirs); err != nil {
		err = fault.New(fault.User, err.Error(), nil)
	} else if err = c.list(ctx, in, job); err == nil && !in.Fresh {
		err = c.useCache(ctx, in, job, programs, refs, dirs)
	}
	return err
}

// list lists the files that are read in place, so that the cleaning reads those as they are now, or fails.
func (c *Cleaner) list(ctx context.Context, in record.StepInput, job *cleaning) error {
	if len(in.InPlace) == 0 || !c.Engine.Here {
		return nil
	}
	found, keyed, err := c.Engine.ListInPlace(ctx, in.InPlace)
	if err != nil {
		return err
	}
	text, err := json.Marshal(found.Files)
	if err != nil {
		return err
	}
	job.contents, job.unkeyed = found.Contents, !keyed
	job.Listed = format.Listed{File: filepath.Join(job.dir, "listed.json"), Own: job.dir}
	return os.WriteFile(job.Listed.File, text, 0o600)
}

// maxCleanCache bounds what is kept of files that were read.
const maxCleanCache = 10 << 30

// useCache lets the cleaning reuse the results of earlier cleanings of the same files.
func (c *Cleaner) useCache(
	ctx context.Context, in record.StepInput, job *cleaning, programs []transform.Exec, refs map[string]artifact.Ref, dirs map[string]string,
) error {
	job.Cache = pipelines.Cache{
		Dir: filepath.Join(c.State, "cache", "clean"), Limit: maxCleanCache, Digests: filepath.Join(job.dir, "digests.json"), Inputs: map[string]string{},
	}
	digests := map[string]string{}
	maps.Copy(digests, job.contents)
	for name, ref := range refs {
		job.Cache.Inputs[dirs[name]] = ref.Digest
		manifest, err := c.Store.Manifest(ctx, ref)
		if err != nil {
			return fmt.Errorf("the input %s: %w", name, err)
		}
		for _, f := range manifest.Files {
			digests[filepath.Join(dirs[name], f.Path)] = f.Digest
		}
	}
	text, err := json.Marshal(digests)
	if err != nil {
		return err
	}
	if err := os.WriteFile(job.Cache.Digests, text, 0o600); err != nil {
		return err
	}
	job.Cache.Secrets = make(map[string]string, len(job.Secrets))
	for variable, value := range job.Secrets {
		if job.Cache.Secrets[variable], err = c.Engine.Fingerprint(ctx, value); err != nil {
			return err
		}
	}
	if len(programs) == 0 {
		return nil
	}
	job.Cache.Programs, err = c.programsDigest(ctx, in, job, programs)
	return err
}

// programsDigest is a digest of everything that the programs' answers depend on.
func (c *Cleaner) programsDigest(ctx context.Context, in record.StepInput, job *cleaning, programs []transform.Exec) (string, error) {
	sub, err := c.Engine.Submission(ctx, in.Submission)
	if err != nil {
		return "", err
	}
	return c.Engine.ProgramsDigest(ctx, sub, transform.ProgramFiles(programs), in.Env, job.Cache.Secrets)
}

// bringProgram prepares the folder in which programs run, with the inputs.
func (c *Cleaner) bringProgram(ctx context.Context, in record.StepInput, job *cleaning) error {
	sub, err := c.Engine.Submission(ctx, in.Submission)
	if err != nil {
		return err
	}
	folder, err := script.Prepare(ctx, script.Setup{
		Dir: job.dir, Store: c.Store, Command: spec.Command{Inputs: job.Spec.Inputs}, Workspace: in.Workspace, Env: in.Env, Python: c.Pythons.For(sub.Python),
		Secrets: job.Secrets, Withhold: secret.Variables(job.env),
	})
	if err != nil {
		return err
	}
	job.Programs = pipelines.Programs{Dir: folder.Work, Env: folder.Env}
	return nil
}

// keep stores the dataset and the dead letter.
func (c *Cleaner) keep(ctx context.Context, job pipelines.Job, out spec.CleanOutput) (record.StepOutput, error) {
	var err error
	if out.Dataset, err = c.Store.PutTree(ctx, artifact.Dataset, job.OutputDir, adopt.Meta(out), nil); err != nil {
		return record.StepOutput{}, Typed(ctx, err)
	}
	if out.Account, err = c.Store.PutTree(ctx, artifact.Dataset, filepath.Dir(job.AccountFile), nil, nil); err != nil {
		return record.StepOutput{}, Typed(ctx, err)
	}
	if out.Statistics, err = c.putFile(ctx, job.ProfileFile); err != nil {
		return record.StepOutput{}, Typed(ctx, err)
	}
	if out.Rows.Rejected > 0 {
		if out.DeadLetter, err = c.Store.PutTree(ctx, artifact.Dataset, job.DeadLetterDir, nil, nil); err != nil {
			return record.StepOutput{}, Typed(ctx, err)
		}
	}
	return record.StoreOutputs(ctx, c.Store, out)
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

func cleanProgress(p *meter.Progress) protocol.Progress {
	if p == nil {
		return protocol.Progress{Text: "fetching the input", Share: -1}
	}
	return protocol.Progress{Text: p.String(), Share: p.Done}
}
