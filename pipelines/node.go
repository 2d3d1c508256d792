package pipelines

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/internal/cleaned"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/stepargs"
	"github.com/sluiceml/sluice/pipelines/meter"
)

// NodeMain is the process that cleans on a node of a pool, as spec.Clean's Train has it started. What it leaves in the node's output folder is
// for the worker to take over. What is wrong with the step is in the report, and the error a trouble of the machine.
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
	if err := os.MkdirAll(filepath.Join(made, cleaned.Account), 0o755); err != nil {
		return err
	}
	var report cleaned.Report
	log := meter.Printer(stdout)
	report.Output, err = Run(ctx, self, job, func(p meter.Progress) {
		log(p)
		_ = stepargs.WriteProgress(args, stepargs.Progress{Text: p.String(), Share: p.Done}) // what cannot be shown is still done
	})
	if err != nil {
		failed := fault.Of(err)
		if failed.Type == fault.Infrastructure || failed.Type == fault.Canceled {
			return err
		}
		report = cleaned.Report{Fault: failed}
	}
	if err := stepargs.WriteReport(made, cleaned.File, report); err != nil {
		return fmt.Errorf("write the report on the cleaning: %w", err)
	}
	return nil
}

// nodeJob makes the job of the arguments and of what programs of the node get: the folder they run in, and their variables.
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
	job.OutputDir, job.DeadLetterDir = filepath.Join(made, cleaned.Dataset), filepath.Join(made, cleaned.Rejected)
	job.ProfileFile, job.AccountFile = filepath.Join(made, cleaned.Profile), filepath.Join(made, cleaned.Account, "account.jsonl")
	return job, job.limit(resolved.Resources)
}

// limit makes the job keep to what the step asked of its node. Where there are programs, they have half of the memory.
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
