package script

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/sluiceml/sluice/dsl/pipfile"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/internal/proc"
)

const (
	// wholeFile is written into a virtual environment when all is installed.
	wholeFile = "sluice-whole"
	// maxRequirements bounds a requirements file.
	maxRequirements = 1 << 20
	// lockLook is how often an environment is looked at that another process makes.
	lockLook = 200 * time.Millisecond
	// installTail is how many of pip's last lines go into the error.
	installTail = 15
)

// venv makes a virtual environment of a requirements file.
type venv struct {
	// base is the folder of the environment it is put on; empty for the python3 in PATH.
	base string
	// file is the requirements file, in the folder work.
	file, work string
	env        []string
	progress   io.Writer
}

// dir returns the environment's folder. There is one for all steps that want the same on the same base while the same is installed there: pip
// leaves out what the base has, and the environment then finds it there. It is in the user's cache, where it may be removed at any time that
// no step runs. A package of the base whose files change and whose version does not is not told from what it was.
func (v venv) dir(ctx context.Context) (string, error) {
	wanted, err := readRequirements(v.work, v.file)
	if err != nil {
		return "", err
	}
	var about struct {
		Paths []string `json:"paths"`
		Pip   bool     `json:"pip"`
	}
	said, err := v.ask(ctx, aboutPython, &about)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(v.base + "\x00" + said + "\x00" + wanted))
	cache, err := os.UserCacheDir()
	if err != nil {
		if cache, err = ownTemp(); err != nil {
			return "", err
		}
	}
	dir := filepath.Join(cache, "sluice", "python", hex.EncodeToString(sum[:16]))
	if isWhole(dir) {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(ctx, dir+".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if isWhole(dir) {
		return dir, nil
	}
	if err := RemoveFolder(dir); err != nil { // half of one
		return "", err
	}
	return dir, v.install(ctx, dir, about.Paths, about.Pip)
}

// ownTemp returns a folder for what is kept where there is no cache folder, as without HOME. Everybody may write to the folder that it is
// in, and whoever made it first could lay programs there: it must be the user's own.
func ownTemp() (string, error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("sluice-cache-%d", os.Getuid()))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int(stat.Uid) != os.Getuid() || !info.IsDir() || info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s is open to other users, who could change the Python packages in it: remove it, or set HOME or XDG_CACHE_HOME", dir)
	}
	return dir, nil
}

// aboutPython says which interpreter it is, whether it has pip, where it finds packages, and which distributions it finds in which of its folders.
const aboutPython = `import importlib.util, json, os, sys
print(json.dumps({
    "is": sys.version,
    "pip": importlib.util.find_spec("pip") is not None,
    "paths": [p for p in sys.path if p.endswith("-packages")],
    "installed": [sorted(e for e in os.listdir(p) if e.endswith((".dist-info", ".egg-info", ".egg-link"))) for p in sys.path if os.path.isdir(p)],
}))`

// install makes the environment. Packages of the base are found behind its own, by a path file: --system-site-packages would mean those of
// the interpreter that the base was made by. So is its pip; for a base without pip, as uv makes them, Python brings its own.
func (v venv) install(ctx context.Context, dir string, paths []string, hasPip bool) error {
	args := []string{"-m", "venv", "--without-pip", dir}
	if !hasPip {
		args = []string{"-m", "venv", dir}
	}
	if _, err := v.python(ctx, args...); err != nil {
		if !hasPip && fault.TypeOf(err) == fault.User {
			return fault.Errorf(fault.User, "the Python environment %s has no pip: install it (`uv pip install pip`, or `apt-get install python3-venv`)\n%w", cmp.Or(v.base, "in PATH"), err)
		}
		return err
	}
	sites, err := filepath.Glob(filepath.Join(dir, "lib", "python*", "site-packages"))
	if err != nil || len(sites) != 1 {
		return fmt.Errorf("the virtual environment %s has no folder for packages: %w", dir, err)
	}
	if err := os.WriteFile(filepath.Join(sites[0], "sluice-base.pth"), []byte(strings.Join(paths, "\n")+"\n"), 0o644); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(v.progress, "installing %s\n", v.file)
	made := v
	made.base = dir
	out, err := made.python(ctx, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--progress-bar", "off", "-r", v.file)
	switch {
	case err == nil:
		return os.WriteFile(filepath.Join(dir, wholeFile), nil, 0o644)
	case fault.TypeOf(err) == fault.User && strings.Contains(out, "Retrying (Retry("):
		return fmt.Errorf("cannot reach a package index: %w", errors.New(err.Error())) // nobody's fault here, so it is tried again
	}
	return err
}

// ask runs a program of Python that prints JSON, and returns that line. What the interpreter prints before, as a sitecustomize may, is not it.
func (v venv) ask(ctx context.Context, program string, answer any) (string, error) {
	out, err := v.python(ctx, "-c", program)
	if err != nil {
		return "", err
	}
	out = strings.TrimSpace(out)
	line := out[strings.LastIndex(out, "\n")+1:]
	if err := json.Unmarshal([]byte(line), answer); err != nil {
		return "", fmt.Errorf("python3 printed no answer: %w", err)
	}
	return line, nil
}

// interpreter is where the base's is. That there is none is the user's error.
func (v venv) interpreter() (string, error) {
	if v.base == "" {
		return LookPath("python3", v.work, v.env)
	}
	return filepath.Join(v.base, "bin", "python3"), nil
}

// python runs the base's interpreter and returns what it printed; of a module also its complaints. That it fails is the user's error.
func (v venv) python(ctx context.Context, args ...string) (string, error) {
	path, err := v.interpreter()
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	tail := proc.NewTail(installTail)
	stdout, stderr := io.Writer(&out), io.MultiWriter(tail, v.progress)
	if args[0] == "-m" {
		stdout = io.MultiWriter(&out, stderr)
		stderr = stdout
	}
	child, err := proc.Start(ctx, proc.Command{Path: path, Args: args, Env: v.env, Dir: v.work, Stdout: stdout, Stderr: stderr})
	if err != nil {
		return "", fault.New(fault.User, "python: "+err.Error(), nil)
	}
	exit, err := child.Wait()
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil:
		return "", err
	case !exit.OK():
		return out.String(), fault.Errorf(fault.User, "%s: python3 %s ended with %s%s", v.file, strings.Join(args[:min(3, len(args))], " "), exit, tail.Explain())
	}
	return out.String(), nil
}

// readRequirements returns a requirements file with those that it includes. What it takes from the workspace itself is refused: the
// environment outlives the workspace.
func readRequirements(work, file string) (string, error) {
	var all strings.Builder
	todo, seen := []string{file}, map[string]bool{}
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		if seen[name] {
			continue
		}
		seen[name] = true
		path, err := Confined(work, name)
		if err != nil {
			return "", err
		}
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return "", fault.Errorf(fault.User, "there is no requirements file %q in the workspace", name)
		} else if err != nil {
			return "", err
		}
		if info.Size() > maxRequirements {
			return "", fault.Errorf(fault.User, "%s has %d bytes: it is not a requirements file", name, info.Size())
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		all.Write(text)
		if line := pipfile.Local(text); line != "" {
			return "", fault.Errorf(fault.User, "%s: %q would install from a folder or a file; import it from the workspace, where the command runs, or use a published package", name, line)
		}
		todo = append(todo, pipfile.Included(name, text)...)
	}
	return all.String(), nil
}

func isWhole(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, wholeFile))
	return err == nil
}

// lock waits until no other process holds a lock on a file, and takes it. It goes with the process.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for range poll.Every(ctx, lockLook) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(err, f.Close())
		}
	}
	return nil, errors.Join(context.Cause(ctx), f.Close())
}
