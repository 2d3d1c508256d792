package pipelines

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/offload"
	"github.com/sluiceml/sluice/internal/stepargs"
	"github.com/sluiceml/sluice/pipelines/meter"
)

// NodeMain is the main function of a clean step that runs on a node of a pool, started as the Train of spec.Clean says. It leaves its
// results in the node's output folder, where the worker collects them. Errors of the step go into the report; NodeMain returns only errors
// that are the machine's fault or a cancellation.
func NodeMain(ctx context.Context, args []string, stdout io.Writer) error {
	job, err := nodeJob(args, stdout)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	made := filepath.Dir(job.OutputDir)
	if err := os.MkdirAll(filepath.Join(made, offload.Account), 0o755); err != nil {
		return err
	}
	var report offload.CleanReport
	log := meter.Printer(stdout)
	report.Output, err = Run(ctx, self, job, func(p meter.Progress) {
		log(p)
		_ = stepargs.WriteProgress(args, stepargs.Progress{Text: p.String(), Share: p.Done}) // progress is informational
	})
	if err != nil {
		failed := fault.Of(err)
		if failed.Type == fault.Infrastructure || failed.Type == fault.Canceled {
			return err
		}
		report = offload.CleanReport{Fault: failed}
	}
	if err := stepargs.WriteReport(made, offload.CleanFile, report); err != nil {
		return fmt.Errorf("write the report on the cleaning: %w", err)
	}
	return nil
}

// nodeJob builds the job from the arguments and the node's environment; programs run in the working folder with this process's variables.
func nodeJob(args []string, log io.Writer) (job Job, err error) {
	resolved, dirs, err := stepargs.Read[spec.Clean](args)
	if err != nil {
		return job, err
	}
	if job.Spec, err = resolved.WithInputs(dirs); err != nil {
		return job, err
	}
	keys, err := transform.HashKeys(&resolved)
	if err != nil {
		return job, err
	}
	job.Secrets = map[string]string{}
	for _, variable := range keys {
		job.Secrets[variable] = os.Getenv(variable)
	}
	if job.Programs.Dir, err = os.Getwd(); err != nil {
		return job, err
	}
	job.Programs.Env, job.Programs.Log = os.Environ(), log
	made := filepath.Join(os.Getenv("SLUICE_OUTPUT_DIR"), spec.CleanMade)
	job.OutputDir, job.DeadLetterDir = filepath.Join(made, offload.Dataset), filepath.Join(made, offload.Rejected)
	job.ProfileFile, job.AccountFile = filepath.Join(made, offload.Profile), filepath.Join(made, offload.Account, "account.jsonl")
	return job, job.limit(resolved.Resources)
}

// limit applies the resources that the step requested. If the step runs programs, they get half of the memory.
func (j *Job) limit(to spec.Resources) error {
	programs, err := transform.Execs(&j.Spec)
	j.Memory, j.MemoryKey = to.Memory, "`resources: {memory}` of the step"
	if len(programs) > 0 {
		j.Memory /= 2
	}
	if to.CPU > 0 {
		j.Parallelism = max(1, int(to.CPU))
	}
	return err
}
