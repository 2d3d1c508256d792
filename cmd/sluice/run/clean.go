package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/dsl/inputpath"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/script"
	"github.com/sluiceml/sluice/internal/secret"
	"github.com/sluiceml/sluice/pipelines"
)

// cleanRequest is what `sluice clean` is asked for.
type cleanRequest struct {
	file, env, step   string
	output, rejected  string
	params, inputDirs map[string]string
}

// NewClean makes `sluice clean`.
func NewClean() *cobra.Command {
	var req cleanRequest
	var params, inputs []string
	cmd := &cobra.Command{
		Use:   "clean FILE",
		Short: "Clean data in this process, without a run",
		Long: `Clean data in this process, without a run: nothing is kept in the state folder,
and no other program is needed.

FILE holds what a pipeline has under ` + "`clean:`" + ` in a step; ` + "`params`" + `, ` + "`env`" + ` and
` + "`secrets`" + ` may be set beside it:

    transforms:
      - {type: ReadFromJson, config: {path: "raw/*.jsonl.gz"}}
      - {type: NormalizeText, config: {fields: [text]}}
      - {type: Deduplicate, config: {fields: [text]}}
      - {type: WriteToJson}

Paths are relative to the folder of FILE. FILE may also be a pipeline, of which
one clean step is run by itself: its gate is not evaluated, its pool is not
used, and --input sets the folder of each of its inputs.

The dataset only appears when it is complete, and existing files are never
overwritten. Rejected rows are written beside it, with the reasons. Ctrl-C
stops the command and leaves no files behind.`,
		Example: `  sluice clean reviews.yaml
  sluice clean reviews.yaml -o cleaned -p min_length=40
  sluice clean pipeline.yaml --step clean --input raw=downloads/ --format json`,
		Args: cobra.ExactArgs(1),
	}
	kit.AddEnvironment(cmd, &req.env)
	cmd.Flags().StringVarP(&req.output, "output", "o", "dataset", "folder for the dataset")
	cmd.Flags().StringVar(&req.rejected, "rejected", "", "folder for the rejected rows (default: that of the dataset, with -rejected)")
	cmd.Flags().StringVar(&req.step, "step", "", "clean step of the pipeline; required if it has several")
	cmd.Flags().StringArrayVar(&inputs, "input", nil, "folder of an input of the step, name=folder; may be repeated")
	cmd.Flags().StringArrayVarP(&params, "param", "p", nil, "parameter, name=value; may be repeated")
	kit.Must(cmd.MarkFlagDirname("output"))
	kit.Must(cmd.MarkFlagDirname("rejected"))
	format := kit.AddFormat(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		req.file = args[0]
		if req.params, err = kit.ParseParams(cmd, params); err != nil {
			return err
		}
		if req.inputDirs, err = kit.ParsePairs(cmd, "--input", "input", inputs); err != nil {
			return err
		}
		ctx, stop := kit.Interruptible(cmd.Context())
		defer stop()
		job, err := req.job(ctx)
		if err != nil {
			return err
		}
		out, err := runClean(ctx, job, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		result := cleaned{CleanOutput: out, Dataset: req.output, DeadLetter: req.rejected}
		if out.Rows.Rejected == 0 {
			result.DeadLetter = ""
		} else if result.why, err = whyRejected(req.rejected, out.Reasons); err != nil {
			return err
		}
		result.why.Warn(cmd.ErrOrStderr())
		if out.Rows.Kept == 0 {
			fmt.Fprintln(cmd.ErrOrStderr(), "warning: no rows were kept") //nolint:errcheck // not the result
		}
		return kit.Print(cmd, *format, result, result.text)
	}
	return cmd
}

// job checks everything that can be checked before anything is read.
func (r *cleanRequest) job(ctx context.Context) (pipelines.Job, error) {
	file, env, err := control.ReadDocuments(r.file, r.env)
	if err != nil {
		return pipelines.Job{}, err
	}
	block := !control.IsPipeline(file.Source)
	if block && r.step != "" {
		return pipelines.Job{}, kit.Invalidf("%s is not a pipeline, so it has no step `%s`\nhelp: remove --step", r.file, r.step)
	}
	folder, err := control.OpenFolder(r.file, env)
	if err != nil {
		return pipelines.Job{}, err
	}
	program, findings := dsl.CompileAlone(file, env, folder, block)
	if program == nil {
		return pipelines.Job{}, &control.LintError{Diagnostics: findings}
	}
	params, bad := program.Params(r.params)
	if bad.HasErrors() {
		return pipelines.Job{}, &control.LintError{Diagnostics: bad}
	}
	job := pipelines.Job{
		Memory: program.Environment().Clean.Memory, Runner: pipelines.RunnerOf(program.Environment().Clean),
	}
	if err := r.resolve(ctx, program, params, &job); err != nil {
		return job, err
	}
	return job, r.folders(&job)
}

// resolve fills in the step's spec and secrets.
func (r *cleanRequest) resolve(ctx context.Context, program *dsl.Program, params map[string]any, job *pipelines.Job) error {
	step, err := r.chooseStep(program)
	if err != nil {
		return err
	}
	refs, dirs := map[string]artifact.Ref{}, map[string]string{}
	for name, dir := range r.inputDirs {
		if info, err := os.Stat(dir); err != nil {
			return fmt.Errorf("the input %s: %w", name, err)
		} else if !info.IsDir() {
			return kit.Invalidf("the input %s: %s is not a folder", name, dir)
		}
		refs[name] = artifact.Ref{Type: artifact.Dataset, Digest: "given"}
		if dirs[name], err = filepath.Abs(dir); err != nil {
			return err
		}
	}
	resolved, err := program.ResolveAlone(step, params, refs)
	if err != nil {
		return kit.Invalidf("%s\nhelp: set it with --input NAME=FOLDER", err)
	}
	clean, err := spec.Decode[spec.Clean](resolved.Spec)
	if err != nil {
		return err
	}
	if job.Spec, err = clean.WithInputs(dirs); err != nil {
		return kit.Invalidf("%s", err)
	}
	values, err := secret.NewResolver().Resolve(ctx, program.Environment(), resolved.Secrets)
	if err != nil {
		return secret.Typed(err)
	}
	job.Secrets = values.ByVariable
	job.Programs, err = programsAlone(resolved.Env, values.ByVariable, dirs)
	return err
}

// programsAlone is what programs of the cleaning run with: what this command was started with, and the step's own variables.
func programsAlone(env, secrets, inputs map[string]string) (pipelines.Programs, error) {
	vars := map[string]string{}
	maps.Copy(vars, secrets)
	vars["PYTHONUNBUFFERED"] = "1"
	for name, value := range env {
		filled, err := inputpath.Replace(value, inputs)
		if err != nil {
			return pipelines.Programs{}, kit.Invalidf("env %s: %s", name, err)
		}
		vars[name] = filled
	}
	return pipelines.Programs{Env: script.Merge(os.Environ(), vars)}, nil
}

// chooseStep returns the clean step that was named, or the only one.
func (r *cleanRequest) chooseStep(program *dsl.Program) (string, error) {
	var steps []string
	for _, node := range program.Graph() {
		if node.Kind == spec.KindClean {
			steps = append(steps, node.ID)
		}
	}
	switch {
	case r.step == "" && len(steps) == 1:
		return steps[0], nil
	case len(steps) == 0:
		return "", kit.Invalidf("%s has no clean step", r.file)
	case r.step == "":
		return "", kit.Invalidf("%s has several clean steps\nhelp: select one with --step: %s", r.file, strings.Join(steps, ", "))
	case !slices.Contains(steps, r.step):
		return "", kit.Invalidf("%s has no clean step `%s`\nhelp: its clean steps are %s", r.file, r.step, strings.Join(steps, ", "))
	}
	return r.step, nil
}

// folders makes sure that there is a place for what comes out.
func (r *cleanRequest) folders(job *pipelines.Job) (err error) {
	if r.output == "" {
		return kit.Invalidf("there is no folder for the dataset\nhelp: set one with -o")
	}
	if r.rejected == "" {
		r.rejected = filepath.Clean(r.output) + "-rejected"
	}
	if job.Dir, err = filepath.Abs(filepath.Dir(r.file)); err != nil {
		return err
	}
	job.Programs.Dir = job.Dir
	for _, folder := range []struct {
		given string
		to    *string
	}{{r.output, &job.OutputDir}, {r.rejected, &job.DeadLetterDir}} {
		if *folder.to, err = filepath.Abs(folder.given); err != nil {
			return err
		}
		if err := checkTarget(folder.given, *folder.to); err != nil {
			return err
		}
	}
	if job.OutputDir == job.DeadLetterDir {
		return kit.Invalidf("the dataset and the rejected rows cannot both be %s", r.output)
	}
	return nil
}

// checkTarget makes sure that a folder can be written: it is not there, or empty, and the folder it lies in is there.
func checkTarget(given, path string) error {
	const other = "use another folder with -o or --rejected"
	entries, err := os.ReadDir(path)
	info, parentErr := os.Stat(filepath.Dir(path))
	switch {
	case err == nil && len(entries) > 0:
		return kit.Invalidf("%s is not empty, and nothing was written\nhelp: remove it, or %s", given, other)
	case err == nil:
		return nil
	case errors.Is(parentErr, fs.ErrNotExist):
		return kit.Invalidf("write to %s: the folder %s does not exist\nhelp: create it, or %s", given, filepath.Dir(given), other)
	case parentErr == nil && !info.IsDir(), errors.Is(parentErr, syscall.ENOTDIR):
		return kit.Invalidf("write to %s: %s is not a folder\nhelp: %s", given, filepath.Dir(given), other)
	case parentErr != nil:
		return kit.Invalidf("write to %s: %s\nhelp: %s", given, parentErr, other)
	case errors.Is(err, syscall.ENOTDIR):
		return kit.Invalidf("%s is a file, and nothing was written\nhelp: %s", given, other)
	case !errors.Is(err, fs.ErrNotExist):
		return kit.Invalidf("write to %s: %s\nhelp: %s", given, err, other)
	}
	return nil
}
