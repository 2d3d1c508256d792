// Package script lays out one execution of the user's own program and takes what it left: the workspace it runs in, the inputs it
// reads, the folder it writes outputs to and the file it reports metrics in. The run and evaluate steps use it on the worker, the
// agent on the nodes of a gang.
package script

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluiceml/sluice/dsl/inputpath"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
)

// Setup says what to lay out.
type Setup struct {
	// Dir is the folder of this attempt; it is made, and must not be shared between attempts.
	Dir       string
	Store     *store.Store
	Command   spec.Command
	Workspace artifact.Ref
	// Env are the step's own variables.
	Env map[string]string
	// Secrets are the values of those that the step asked for, by variable.
	Secrets map[string]string
	// Withhold names the variables of this process that hold secrets, whether the step asked for them or not.
	Withhold []string
	// Python is the folder of the virtual environment whose programs come first in PATH; empty for none.
	Python string
	// Requirements is the requirements file, of the workspace, for a command that names none; empty for none.
	Requirements string
	// Progress takes lines on what is done, where that takes long; nil for nobody.
	Progress io.Writer
	// State is the state folder, for a program that may call sluice; empty for all others.
	State string
	// Node is true where the environment of this process is that of a machine or an image which the user chose for the step: all of it is
	// inherited but credentials. Elsewhere it is the worker's, of which programs get what package childenv says.
	Node bool
}

// Folder is one execution's place: everything under Root.
type Folder struct {
	Root string
	// Work is the copy of the workspace, the program's working folder.
	Work string
	// Output is $SLUICE_OUTPUT_DIR, Metrics the file $SLUICE_METRICS.
	Output  string
	Metrics string
	// Argv is the command with the paths of its inputs filled in.
	Argv []string
	// Env is the whole environment, ready to hand to the process: what is inherited, then the contract's variables, then the step's.
	Env []string
	// Note is a line for the program's log about variables that it may expect and does not get; empty when there are none.
	Note string
}

// Prepare lays an execution out: it fetches the workspace, unless the command depends on none of its files, and the inputs, verified, and
// fills in the paths.
func Prepare(ctx context.Context, s Setup) (*Folder, error) {
	f := &Folder{
		Root: s.Dir, Work: filepath.Join(s.Dir, "work"), Output: filepath.Join(s.Dir, "output"),
		Metrics: filepath.Join(s.Dir, "metrics.jsonl"),
	}
	if err := os.MkdirAll(f.Output, 0o755); err != nil {
		return nil, fmt.Errorf("create the step's folder: %w", err)
	}
	requirements := cmp.Or(s.Command.Runtime.Python, s.Requirements)
	if s.Command.Files != nil && len(s.Command.Files) == 0 && requirements == "" {
		if err := os.Mkdir(f.Work, 0o755); err != nil {
			return nil, fmt.Errorf("create the step's folder: %w", err)
		}
	} else if err := s.Store.Fetch(ctx, s.Workspace, f.Work); err != nil {
		return nil, fmt.Errorf("fetch the workspace: %w", err)
	}
	if requirements != "" {
		if err := s.install(ctx, f, requirements); err != nil {
			return nil, err
		}
	}
	dirs, err := FetchInputs(ctx, s.Store, s.Command.Inputs, filepath.Join(s.Dir, "inputs"))
	if err != nil {
		return nil, err
	}
	for _, arg := range s.Command.Command {
		filled, err := inputpath.Replace(arg, dirs)
		if err != nil {
			return nil, fault.New(fault.User, err.Error(), nil)
		}
		f.Argv = append(f.Argv, filled)
	}
	if f.Env, err = environment(s, f, dirs); err != nil {
		return nil, err
	}
	f.Note = s.note(f)
	return f, nil
}

// install puts the packages of a requirements file on the environment.
func (s *Setup) install(ctx context.Context, f *Folder, file string) error {
	if s.Progress == nil {
		s.Progress = io.Discard
	}
	v := venv{base: s.Python, file: file, work: f.Work, env: s.inherited(), progress: s.Progress}
	var err error
	if s.Python, err = v.dir(ctx); err != nil && fault.TypeOf(err) != fault.User {
		return fmt.Errorf("install %s: %w", file, err)
	}
	return err
}

// FetchInputs brings artifacts to folders under dir and returns the folder of each by name.
func FetchInputs(ctx context.Context, s *store.Store, inputs map[string]artifact.Ref, dir string) (map[string]string, error) {
	dirs := make(map[string]string, len(inputs))
	for name, ref := range inputs {
		dirs[name] = filepath.Join(dir, name)
		if err := s.Fetch(ctx, ref, dirs[name]); err != nil {
			return nil, fmt.Errorf("fetch input %s: %w", name, err)
		}
	}
	return dirs, nil
}

func environment(s Setup, f *Folder, inputs map[string]string) ([]string, error) {
	vars := map[string]string{
		"SLUICE_OUTPUT_DIR": f.Output, "SLUICE_METRICS": f.Metrics, "PYTHONUNBUFFERED": "1",
		"ORT_DISABLE_TELEMETRY": "1", // ONNX Runtime reports on the user's models to its maker otherwise
	}
	path := []string{os.Getenv("PATH")}
	if s.Python != "" {
		vars["VIRTUAL_ENV"] = s.Python
		path = append([]string{filepath.Join(s.Python, "bin")}, path...)
	}
	if s.State != "" {
		own, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find the executable of this program: %w", err)
		}
		vars["SLUICE_STATE"], vars["SLUICE_STORE"] = s.State, s.Store.URL()
		path = append(path, filepath.Dir(own)) // last: it may be a folder of many programs
	}
	vars["PATH"] = strings.Join(path, string(os.PathListSeparator))
	for name, value := range s.Env {
		filled, err := inputpath.Replace(value, inputs)
		if err != nil {
			return nil, fault.Errorf(fault.User, "env %s: %v", name, err)
		}
		vars[name] = filled
	}
	maps.Copy(vars, s.Secrets)
	return Merge(s.inherited(), vars), nil
}

// Confined returns the path of rel inside dir; a rel that leads out of dir is the user's error.
func Confined(dir, rel string) (string, error) {
	if !filepath.IsLocal(rel) {
		return "", fault.Errorf(fault.User, "path %q is outside its folder", rel)
	}
	return filepath.Join(dir, rel), nil
}

// LookPath finds the program to start: a name with a slash is relative to the working folder, a plain one is looked up in the PATH
// the program itself will have.
func LookPath(name, work string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(work, name)
		}
		return name, nil
	}
	for _, kv := range env {
		path, found := strings.CutPrefix(kv, "PATH=")
		if !found {
			continue
		}
		for _, dir := range filepath.SplitList(path) {
			file := filepath.Join(dir, name)
			if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return file, nil
			}
		}
	}
	return "", fault.Errorf(fault.User, "%s is not installed: it is not in PATH", name)
}
