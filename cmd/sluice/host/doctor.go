package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/cmd/sluice/view"
	"github.com/sluiceml/sluice/connect"
	"github.com/sluiceml/sluice/connect/embedded"
	"github.com/sluiceml/sluice/connect/state/holder"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/serving/onnx"
	"github.com/sluiceml/sluice/worker"
)

const (
	// checkTimeout bounds one check; importing a large Python module for the first time may take a while.
	checkTimeout = time.Minute
	// countTimeout bounds the counting of what is kept, which in a large store takes longer than anybody waits for.
	countTimeout = 5 * time.Second
	// answerTimeout bounds the wait for the holder of the state folder.
	answerTimeout = 5 * time.Second
	// enoughDisk is what a small pipeline needs: data, checkpoints and models are all kept.
	enoughDisk = 2 << 30
)

// NewDoctor makes `sluice doctor`.
func NewDoctor() *cobra.Command {
	var env string
	cmd := &cobra.Command{
		Use:   "doctor [PIPELINE]",
		Short: "Check what is installed, what is missing, and how to install it",
		Long: `Check what Sluice needs on this machine: what is installed, what is missing and
how to install it. With PIPELINE, also check what that pipeline needs in its
environment: programs and Python modules, ONNX Runtime, Java and Flink, pools,
secrets, and the ports, programs, servers, certificates and keys of its
targets; the pipeline itself is linted first.
Requirements of other pipelines are shown as notes. If a requirement is
missing, the exit code is 1.`,
		Example: `  sluice doctor
  sluice doctor pipeline.yaml -e environments/prod.yaml`,
		Args: cobra.MaximumNArgs(1),
	}
	kit.AddEnvironment(cmd, &env)
	format := kit.AddFormat(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), checkTimeout)
		defer cancel()
		out, state := cmd.OutOrStdout(), kit.StateDir(cmd)
		findings := append(examine(ctx, state, view.ThemeOf(out)), checkKept(ctx, cmd)...)
		findings = append(findings, checkPython(ctx, state, args...))
		if len(args) > 0 {
			req := control.SubmitRequest{PipelineFile: args[0], EnvFile: env}
			program, err := req.Program()
			if err != nil {
				return err
			}
			findings = append(findings, examinePipeline(ctx, state, args[0], program)...)
		} else {
			findings = append(findings, checkLibrary(view.Note), checkAgent(view.Note))
			findings = append(findings, checkGPUs(ctx)...)
		}
		err := kit.Print(cmd, *format, findings, func(out io.Writer) error { return view.ThemeOf(out).Health(out, findings) })
		if err == nil && slices.ContainsFunc(findings, func(f view.Finding) bool { return f.State == view.Missing }) {
			err = kit.ExitWith(kit.ExitInfrastructure)
		}
		return err
	}
	return cmd
}

// examine makes the checks of Sluice itself, in the order they are shown.
func examine(ctx context.Context, state string, theme view.Theme) []view.Finding {
	return []view.Finding{
		checkProgram(ctx, "bash", view.Missing, "`script:` steps need it: install the package bash", "--version"),
		checkState(state),
		checkDisk(state),
		checkClock(),
		checkTemporal(ctx, state, theme),
	}
}

// checkProgram looks for a program in PATH; absent is how bad it is when it is not there.
func checkProgram(ctx context.Context, name string, absent view.Health, help string, args ...string) view.Finding {
	f := view.Finding{Name: name}
	path, err := exec.LookPath(name)
	if err != nil {
		f.State, f.Detail, f.Help = absent, "not in PATH", help
		return f
	}
	out, err := exec.CommandContext(ctx, path, args...).Output()
	if err != nil {
		f.State, f.Detail, f.Help = absent, fmt.Sprintf("%s cannot be run: %v", path, err), help
		return f
	}
	f.Detail = path + ", " + human.Line(string(out))
	return f
}

// checkState tries whether a file can be made where the state folder is or would be.
func checkState(state string) view.Finding {
	f := view.Finding{Name: "state folder"}
	dir := existing(state)
	file, err := os.CreateTemp(dir, ".sluice-doctor-*")
	if err != nil {
		f.State, f.Detail = view.Missing, err.Error()
		f.Help = "make the folder writable, or use another with --state or $" + kit.StateVariable
		return f
	}
	err = errors.Join(file.Close(), os.Remove(file.Name()))
	if err != nil {
		f.State, f.Detail = view.Missing, err.Error()
		return f
	}
	f.Detail = state + " is writable"
	if dir != state {
		f.Detail = state + " can be created"
	}
	return f
}

// existing is the nearest folder at or above path that is there.
func existing(path string) string {
	for {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return path
		}
		parent := filepath.Dir(path)
		if parent == path {
			return path
		}
		path = parent
	}
}

func checkDisk(state string) view.Finding {
	f := view.Finding{Name: "free disk"}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(existing(state), &fs); err != nil {
		f.State, f.Detail = view.Note, err.Error()
		return f
	}
	free := int64(fs.Bavail) * fs.Bsize
	f.Detail = human.Bytes(free)
	if free < enoughDisk {
		f.State, f.Help = view.Note, "data, checkpoints and models are kept in the state folder: free some space, or use another folder with --state"
	}
	return f
}

// checkKept says what is kept, by kind; nothing where there are no runs yet.
func checkKept(ctx context.Context, cmd *cobra.Command) []view.Finding {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	f := view.Finding{Name: "kept"}
	s, err := kit.OpenStore(cmd)
	if errors.Is(err, kit.ErrNoRuns) {
		return nil
	}
	var all []kit.DiskUse
	if err == nil {
		all, err = kit.Disk(ctx, s, kit.StateDir(cmd), func(int64) {})
	}
	switch {
	case ctx.Err() != nil:
		f.Detail = fmt.Sprintf("more than is counted within %s: `sluice data ls --disk` counts it", countTimeout)
		return []view.Finding{f}
	case err != nil:
		f.State, f.Detail = view.Note, err.Error()
		return []view.Finding{f}
	}
	var parts []string
	free := int64(0)
	for _, u := range all {
		parts = append(parts, u.Kind+" "+human.Bytes(u.Bytes))
		free += u.Free
	}
	f.Detail = strings.Join(parts, ", ")
	if free > 0 {
		f.Detail += fmt.Sprintf("\n%s of that is for `sluice data gc --checkpoints`", human.Bytes(free))
	}
	return []view.Finding{f}
}

// checkClock asks the kernel whether something keeps the clock right, where it tells: clouds refuse requests that are minutes off.
func checkClock() view.Finding {
	now := time.Now()
	f := view.Finding{Name: "clock", Detail: now.Format("2006-01-02 15:04:05 MST")}
	if state, err := unix.Adjtimex(&unix.Timex{}); err == nil && state == unix.TIME_ERROR {
		f.State, f.Detail = view.Note, f.Detail+", not synchronized"
		f.Help = "schedules fire by this clock, and clouds reject requests if it is minutes off: `timedatectl set-ntp true` synchronizes it"
	}
	return f
}

// checkTemporal says which Temporal runs would use, and whether it answers.
func checkTemporal(ctx context.Context, state string, theme view.Theme) view.Finding {
	f := view.Finding{Name: "Temporal"}
	if connect.ClusterNamed() {
		s, err := control.Open(ctx, control.Options{StateDir: state})
		if err != nil {
			f.State, f.Detail = view.Missing, err.Error()
			return f
		}
		f.Detail = "the cluster at " + s.Info.TemporalAddress + " answers"
		if err := s.Close(); err != nil {
			f.State, f.Detail = view.Note, err.Error()
		}
		return f
	}
	info, held, err := holder.Find(state)
	switch {
	case err != nil:
		f.State, f.Detail = view.Missing, err.Error()
	case !held:
		f.Detail = "built in; not running now"
	default:
		if err := connect.Ask(ctx, state, info, answerTimeout); err != nil {
			f.State = view.Missing
			f.Detail, f.Help, _ = strings.Cut(fault.Message(err), "\nhelp: ")
			return f
		}
		f.Detail = fmt.Sprintf("built in; running in process %d at %s", info.PID, info.TemporalAddress)
		if token, err := embedded.ReadToken(info.TokenFile); err == nil {
			f.Detail += "\nits UI is at " + theme.Page(token.WorkflowURL(info.UIAddress, info.Namespace, "", ""))
		}
	}
	return f
}

// checkLibrary loads ONNX Runtime as serving would; absent is how bad it is when it is not there.
func checkLibrary(absent view.Health) view.Finding {
	f := view.Finding{Name: "ONNX Runtime"}
	v, err := onnx.LibraryVersion()
	if err != nil {
		f.State, f.Detail = absent, err.Error()
		f.Help = "`compile` steps and embedded targets need it: `pip install onnxruntime` in a .venv in the folder where Sluice is started, or above; or set its path with $" +
			onnx.LibraryVariable
		return f
	}
	f.Detail = v
	if path, err := onnx.FindLibrary(); err == nil {
		f.Detail += ", " + path
	}
	return f
}

// checkAgent looks for the program that runs training nodes, which is installed beside this one.
func checkAgent(absent view.Health) view.Finding {
	f := view.Finding{Name: "sluice-agent"}
	path, err := exec.LookPath(worker.AgentPath())
	if err != nil {
		f.State, f.Detail = absent, err.Error()
		f.Help = "`train` steps need it: build it beside sluice, or set its path with $SLUICE_AGENT"
		return f
	}
	f.Detail = path
	return f
}
