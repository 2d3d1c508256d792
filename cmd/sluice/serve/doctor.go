package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/cmd/sluice/view"
	"github.com/sluiceml/sluice/connect"
	"github.com/sluiceml/sluice/connect/state"
	"github.com/sluiceml/sluice/connect/state/holder"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/serving/onnx"
	"github.com/sluiceml/sluice/worker"
)

const (
	// checkTimeout bounds one check; importing PyTorch for the first time may take a while.
	checkTimeout = time.Minute
	// enoughDisk is what a small pipeline needs: data, checkpoints and models are all kept.
	enoughDisk = 2 << 30
	// defaultPort is where an embedded target listens unless told otherwise.
	defaultPort = "127.0.0.1:8080"
)

// NewDoctor makes `sluice doctor`.
func NewDoctor() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look at what is installed, what is missing, and how to get it",
		Long: `Look at what pipelines need on this machine: what is there, what is missing and how to get it. The exit code is 1 when something
needed is missing; what only some pipelines need is a note.`,
		Args: cobra.NoArgs,
	}
	format := kit.AddFormat(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		findings := examine(cmd.Context(), kit.StateDir(cmd))
		err := kit.Print(cmd, *format, findings, func(out io.Writer) error { return view.ThemeOf(out).Health(out, findings) })
		if err == nil && slices.ContainsFunc(findings, func(f view.Finding) bool { return f.State == view.Missing }) {
			err = kit.ExitWith(kit.ExitInfrastructure)
		}
		return err
	}
	return cmd
}

// examine makes every check, in the order they are shown.
func examine(ctx context.Context, state string) []view.Finding {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	findings := []view.Finding{
		checkProgram(ctx, "bash", view.Missing, "`script:` steps run in it: install the package bash", "--version"),
		checkState(state),
		checkDisk(state),
		checkTemporal(ctx, state),
	}
	findings = append(findings, checkPython(ctx)...)
	findings = append(findings, checkLibrary(), checkAgent())
	findings = append(findings, checkGPUs(ctx)...)
	return append(findings,
		checkPort(ctx, state),
		checkProgram(ctx, "npm", view.Note, "the example fetches its data with it: install the package npm", "--version"),
	)
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
		f.State, f.Detail, f.Help = absent, fmt.Sprintf("%s does not run: %v", path, err), help
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
		f.Help = "make the folder writable, or name another with --state or $" + kit.StateVariable
		return f
	}
	err = errors.Join(file.Close(), os.Remove(file.Name()))
	if err != nil {
		f.State, f.Detail = view.Missing, err.Error()
		return f
	}
	f.Detail = state + " is writable"
	if dir != state {
		f.Detail = state + " can be made"
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
		f.State, f.Help = view.Note, "data, checkpoints and models are kept in the state folder: make room, or name another with --state"
	}
	return f
}

// checkTemporal says which Temporal runs would use, and whether it answers.
func checkTemporal(ctx context.Context, state string) view.Finding {
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
	case !answers(ctx, info.TemporalAddress):
		f.State, f.Detail = view.Missing, fmt.Sprintf("process %d holds the state folder, but %s does not answer", info.PID, info.TemporalAddress)
		f.Help = fmt.Sprintf("end process %d; runs go on when Sluice is next started", info.PID)
	default:
		f.Detail = fmt.Sprintf("built in; runs in process %d at %s", info.PID, info.TemporalAddress)
	}
	return f
}

func answers(ctx context.Context, address string) bool {
	conn, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	conn.Close() //nolint:errcheck // it was only tried
	return true
}

// modules are the Python modules the kinds need, with what for.
var modules = []struct{ name, purpose string }{
	{"torch", "the example trains with it"},
	{"onnx", "models are exported with it"},
	{"onnxruntime", "`compile` steps optimise and quantise with its tools"},
}

const setUp = "`make setup` in Sluice's repository makes .venv with all of it; or name an environment that has it with $" + onnx.EnvironmentVariable

// probe prints the version of each module as JSON, null for what cannot be imported.
const probe = `import importlib, json, sys
found = {"python": sys.version.split()[0]}
for name in sys.argv[1:]:
    try:
        found[name] = str(importlib.import_module(name).__version__)
    except Exception:
        found[name] = None
print(json.dumps(found))`

// checkPython looks at the interpreter that users' programs get, and at the modules in it.
func checkPython(ctx context.Context) []view.Finding {
	env := state.FindPython()
	python, args := filepath.Join(env, "bin", "python3"), []string{"-c", probe}
	if env == "" {
		python = "python3"
	}
	for _, m := range modules {
		args = append(args, m.name)
	}
	var found map[string]*string
	out, err := exec.CommandContext(ctx, python, args...).Output()
	if err == nil {
		err = json.Unmarshal(out, &found)
	}
	if err != nil {
		return []view.Finding{{Name: "python", State: view.Missing, Detail: fmt.Sprintf("%s does not run: %v", python, err), Help: setUp}}
	}
	findings := []view.Finding{{Name: "python", Detail: python + ", " + *found["python"]}}
	for _, m := range modules {
		f := view.Finding{Name: m.name}
		if v := found[m.name]; v != nil {
			f.Detail = *v
		} else {
			f.State, f.Detail, f.Help = view.Missing, "cannot be imported by "+python, m.purpose+": "+setUp
		}
		findings = append(findings, f)
	}
	return findings
}

// checkLibrary loads ONNX Runtime as serving would.
func checkLibrary() view.Finding {
	f := view.Finding{Name: "ONNX Runtime"}
	v, err := onnx.LibraryVersion()
	if err != nil {
		f.State, f.Detail, f.Help = view.Missing, err.Error(), setUp+", or its library with $"+onnx.LibraryVariable
		return f
	}
	f.Detail = v
	if path, err := onnx.FindLibrary(); err == nil {
		f.Detail += ", " + path
	}
	return f
}

// checkAgent looks for the program that runs training nodes, which is installed beside this one.
func checkAgent() view.Finding {
	f := view.Finding{Name: "sluice-agent"}
	path, err := exec.LookPath(worker.AgentPath())
	if err != nil {
		f.State, f.Detail = view.Missing, err.Error()
		f.Help = "it is built with sluice and belongs beside it, or where $SLUICE_AGENT says: `train` steps need it"
		return f
	}
	f.Detail = path
	return f
}

// checkPort looks whether the default port of an embedded target is free, or Sluice's own.
func checkPort(ctx context.Context, state string) view.Finding {
	f := view.Finding{Name: "port 8080", Detail: "free, for an embedded target"}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", defaultPort)
	if err == nil {
		listener.Close() //nolint:errcheck // it was only tried
		return f
	}
	if _, held, err := holder.Find(state); err == nil && held {
		f.Detail = "in use, by the Sluice that holds the state folder or another program"
		return f
	}
	f.State, f.Detail = view.Note, strings.TrimPrefix(err.Error(), "listen tcp ")
	f.Help = "end the program that listens there, or give the target another `port` in the environment"
	return f
}
