package script

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sluiceml/sluice/internal/fault"
)

// Interpreter is the Python that users' programs find first. It tells one from another by what may make something else of the same
// program: its version, and which distributions are installed for it in which versions. Where they are installed is not in it, nor what
// was changed in place, as with `pip install -e`.
type Interpreter struct {
	// Env is the virtual environment; empty for the python3 in PATH.
	Env string

	mu     sync.Mutex
	digest string
	// changed are the times of change of the files and folders that the digest was made of.
	changed map[string]time.Time
	// path is where python3 was found, target what that leads to.
	path, target string
	// shim: the target is not the interpreter but something that starts one. asked is when it was asked last.
	shim  bool
	asked time.Time
}

// shimAge is how long the digest of an interpreter behind a shim is taken for true. `pyenv global` changes which one that is, and no file
// that is known here. To ask takes a tenth of a second or two, which is little beside steps, and too much for each of those that come at once.
const shimAge = 10 * time.Second

// Pythons are the virtual environments that programs may run in on this machine.
type Pythons struct {
	// Own is the worker's; empty for the python3 in PATH.
	Own string
	// Named: somebody has named Own, and it is that of every run.
	Named bool

	mu    sync.Mutex
	known map[string]*Interpreter
}

// For returns the virtual environment of a run: the one that was beside its pipeline when it was submitted, where this machine has that,
// else the worker's own.
func (p *Pythons) For(submitted string) string {
	if p.Named || submitted == "" {
		return p.Own
	}
	if info, err := os.Stat(filepath.Join(submitted, "bin", "python3")); err != nil || info.IsDir() {
		return p.Own
	}
	return submitted
}

// Digest is that of the interpreter in the virtual environment that For returns.
func (p *Pythons) Digest(ctx context.Context, submitted string) (string, error) {
	env := p.For(submitted)
	p.mu.Lock()
	if p.known == nil {
		p.known = map[string]*Interpreter{}
	}
	if p.known[env] == nil {
		p.known[env] = &Interpreter{Env: env}
	}
	interpreter := p.known[env]
	p.mu.Unlock()
	return interpreter.Digest(ctx)
}

// PythonOf says which Python a program found first, where what the program said last is a complaint of Python; else it is empty.
func (f *Folder) PythonOf(said string) string {
	if !strings.Contains(said, "  File \"") && !strings.Contains(said, "No module named ") { // the first line of a long traceback is lost
		return ""
	}
	name := "python3"
	if strings.HasPrefix(filepath.Base(f.Argv[0]), "python") {
		name = f.Argv[0]
	}
	path, err := LookPath(name, f.Work, f.Env)
	if err != nil {
		return ""
	}
	return "\n(" + filepath.Base(name) + " is " + path + ")"
}

// installedPython says which interpreter it is, what is installed for it, and which files and folders change when that does.
const installedPython = `import json, os, sys
folders = [p for p in sys.path if os.path.isdir(p)]
installed = {e for p in folders for e in os.listdir(p) if e.endswith((".dist-info", ".egg-info", ".egg-link"))}
print(json.dumps({
    "is": [sys.version, *sorted(installed)],
    "executable": os.path.realpath(sys.executable),
    "watch": [os.path.realpath(sys.executable), os.path.join(sys.prefix, "pyvenv.cfg"), *folders],
}))`

// Digest names the interpreter as it is now. It is asked only when another one is found, when a folder has changed that it looks for
// packages in, and now and then when it is behind a shim. A machine without Python, or with one that does not start, has a digest too.
func (p *Interpreter) Digest(ctx context.Context) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := venv{base: p.Env, env: os.Environ(), progress: io.Discard}
	path, err := asked.interpreter()
	if err != nil {
		return "none", nil //nolint:nilerr // there is no Python
	}
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		target = path
	}
	if p.digest != "" && path == p.path && target == p.target && p.unchanged() {
		return p.digest, nil
	}
	now := time.Now()
	var about struct {
		Is         []string `json:"is"`
		Executable string   `json:"executable"`
		Watch      []string `json:"watch"`
	}
	_, err = asked.ask(ctx, installedPython, &about)
	if fault.TypeOf(err) == fault.User {
		return "none", nil
	} else if err != nil {
		return "", fmt.Errorf("ask Python what is installed: %w", err)
	}
	sum := sha256.New()
	for _, is := range about.Is {
		fmt.Fprintf(sum, "%q\n", is) //nolint:errcheck // a hash takes everything
	}
	p.digest, p.changed = hex.EncodeToString(sum.Sum(nil))[:16], map[string]time.Time{}
	for _, path := range about.Watch {
		p.changed[path] = changedAt(path)
	}
	p.path, p.target, p.shim, p.asked = path, target, target != about.Executable, now
	return p.digest, nil
}

func (p *Interpreter) unchanged() bool {
	if p.shim && time.Since(p.asked) > shimAge {
		return false
	}
	for path, at := range p.changed {
		if !changedAt(path).Equal(at) {
			return false
		}
	}
	return true
}

// changedAt is when a file or folder was last changed; zero when it is not there.
func changedAt(path string) time.Time {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}
