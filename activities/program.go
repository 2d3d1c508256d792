package activities

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/activities/engine"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/heartbeat"
	"github.com/sluiceml/sluice/internal/proc"
	"github.com/sluiceml/sluice/internal/script"
	"github.com/sluiceml/sluice/internal/secret"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/store/steplog"
	"github.com/sluiceml/sluice/training/protocol"
)

const (
	// grace is how long a program may take to end after SIGTERM.
	grace = 10 * time.Second
	// tailLines is how many lines of a failed program's output its error shows.
	tailLines = 20
)

// Programs has the activities that run the user's programs on the worker: the kinds `run` and `evaluate`.
type Programs struct {
	Store *store.Store
	// State is the state folder: attempts work under tmp/.
	State string
	// Pythons are the virtual environments whose programs come first in PATH.
	Pythons *script.Pythons
	// Engine loads the environments of submissions, and Secrets resolves the secrets that these name.
	Engine  *engine.Engine
	Secrets *secret.Resolver
}

// Run runs a run step.
func (p *Programs) Run(ctx context.Context, in record.StepInput) (record.StepOutput, error) {
	spec, err := record.LoadSpec[spec.Run](ctx, p.Store, in)
	if err != nil {
		return record.StepOutput{}, err
	}
	state := ""
	if spec.CallsSluice() {
		state = p.State
	}
	return p.perform(ctx, in, spec.Program(), state, func(*script.Folder) (map[string]any, error) { return map[string]any{}, nil })
}

// Evaluate runs an evaluate step.
func (p *Programs) Evaluate(ctx context.Context, in record.StepInput) (record.StepOutput, error) {
	spec, err := record.LoadSpec[spec.Evaluate](ctx, p.Store, in)
	if err != nil {
		return record.StepOutput{}, err
	}
	return p.perform(ctx, in, spec.Command, "", func(f *script.Folder) (map[string]any, error) {
		metrics, err := script.Metrics(f.Metrics, spec.Metrics)
		return map[string]any{"metrics": metrics}, err
	})
}

// perform makes one attempt: prepare, run, collect. state is the state folder if the program may call sluice. The attempt's folder is
// always removed, and nothing that the attempt leaves behind contains the value of a secret.
func (p *Programs) perform(
	ctx context.Context, in record.StepInput, command spec.Command, state string, fixed func(*script.Folder) (map[string]any, error),
) (record.StepOutput, error) {
	said := proc.NewTail(1)
	heartbeat.Show(ctx, func() any { return protocol.Progress{Text: said.String(), Share: -1} })
	sub, err := p.Engine.Submission(ctx, in.Submission)
	if err != nil {
		return record.StepOutput{}, err
	}
	env := sub.Program.Environment()
	secrets, err := resolveSecrets(ctx, p.Secrets, env, in.Secrets)
	if err != nil {
		return record.StepOutput{}, Typed(ctx, secret.Typed(err))
	}
	log := openLog(ctx, p.Store, in)
	defer log.Close()
	dir, cleanup, err := AttemptDir(ctx, p.State, in)
	if err != nil {
		return record.StepOutput{}, err
	}
	defer cleanup()
	outputs, err := p.attempt(ctx, in, fixed, log, said, secrets.Mask, script.Setup{
		Dir: dir, Store: p.Store, Command: command, Workspace: in.Workspace, Env: in.Env, Python: p.Pythons.For(sub.Python), State: state,
		Secrets: secrets.ByVariable, Withhold: secret.Variables(env),
	})
	if err != nil {
		return record.StepOutput{}, fault.Masked(secrets.Mask, Typed(ctx, err))
	}
	return record.StoreOutputs(ctx, p.Store, outputs)
}

// attempt prepares the folder, runs the program and collects its outputs.
func (p *Programs) attempt(
	ctx context.Context, in record.StepInput, fixed func(*script.Folder) (map[string]any, error), log *steplog.Writer, said io.Writer,
	mask *secret.Mask, setup script.Setup,
) (map[string]any, error) {
	setup.Progress = said
	folder, err := script.Prepare(ctx, setup)
	if err != nil {
		return nil, err
	}
	if err := start(ctx, in, folder, io.MultiWriter(log.Program(), said), mask); err != nil {
		return nil, err
	}
	outputs, err := fixed(folder)
	if err != nil {
		return nil, err
	}
	declared, err := script.Collect(ctx, p.Store, setup.Command.Outputs, folder.Output)
	if err != nil {
		return nil, err
	}
	maps.Copy(outputs, declared)
	return outputs, script.RefuseSecrets(outputs, mask)
}

// start runs the program to its end. Any exit other than 0 is a user error, with the last lines of output, unless it was killed.
func start(ctx context.Context, in record.StepInput, f *script.Folder, said io.Writer, mask *secret.Mask) error {
	tail := proc.NewTail(tailLines)
	out := mask.Writer(io.MultiWriter(tail, said))
	path, err := script.LookPath(f.Argv[0], f.Work, f.Env)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(out, f.Note); err != nil {
		return fmt.Errorf("write the step's log: %w", err)
	}
	child, err := proc.Start(ctx, proc.Command{
		Path: path, Args: f.Argv[1:], Env: f.Env, Dir: f.Work, Stdout: out, Stderr: out, Grace: grace,
	})
	if err != nil {
		return fault.New(fault.User, err.Error(), nil)
	}
	exit, err := child.Wait()
	err = errors.Join(err, out.Close())
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("run %s: %w", f.Argv[0], err)
	case exit.Killed(): // nothing a program does to itself
		return fault.Errorf(fault.Infrastructure, "%s was killed (%s), by a person or for lack of memory\n%s", name(in, f), exit, tail)
	case !exit.OK() && isFull(f.Root):
		return fault.Errorf(fault.Infrastructure, "%s ended with %s: no space left on device for %s%s", name(in, f), exit, f.Root, tail.Explain())
	case !exit.OK():
		return fault.Errorf(fault.User, "%s ended with %s%s%s", name(in, f), exit, tail.Explain(), f.PythonOf(tail.String()))
	}
	return nil
}

// isFull reports whether the file system of a folder has less than a mebibyte left.
func isFull(dir string) bool {
	var fs syscall.Statfs_t
	return syscall.Statfs(dir, &fs) == nil && fs.Bavail*uint64(fs.Bsize) < 1<<20
}

// name returns the name of the program for messages: the script's step, or the command as the user wrote it, without paths.
func name(in record.StepInput, f *script.Folder) string {
	if in.Kind == spec.KindRun && f.Argv[0] == "bash" {
		return "the script"
	}
	words := make([]string, 0, 2)
	for _, arg := range f.Argv[:min(2, len(f.Argv))] {
		words = append(words, filepath.Base(arg))
	}
	return "`" + strings.Join(words, " ") + "`"
}

// Typed converts an activity's error to the type that the rest of the system depends on.
func Typed(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, store.ErrFull), errors.Is(err, store.ErrReadOnly), errors.Is(err, os.ErrPermission):
		return fault.New(fault.Infrastructure, err.Error(), err)
	}
	return err
}

// openLog begins the log of this attempt. Nothing is stored unless the program prints. It is to be closed after the attempt's folder is removed:
// what fills the disk may be in that.
func openLog(ctx context.Context, s *store.Store, in record.StepInput) *steplog.Writer {
	of := steplog.Source{Run: in.Run, Step: in.Step, Generation: contract.AttemptOf(activity.GetInfo(ctx).ActivityID)}
	return steplog.NewWriter(s, of, 1, 1, func(err error) {
		activity.GetLogger(ctx).Warn("the log of a step cannot be stored at the moment; trying again", "step", in.Step, "error", err)
	})
}
