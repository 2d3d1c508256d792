// Package compare has what the benches share: figures, and other programs to compare with.
package compare

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
)

// Figure is one line of output.
type Figure struct {
	Name    string  `json:"name"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`
	Against string  `json:"against,omitempty"`
	Samples int     `json:"samples"`
}

// Show writes figures of so many samples to standard output.
func Show(samples int, figures ...Figure) error {
	for _, f := range figures {
		f.Samples = samples
		if err := json.NewEncoder(os.Stdout).Encode(f); err != nil {
			return err
		}
	}
	return nil
}

// Median returns the median, the upper one of an even number. There is at least one number.
func Median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// Cache is where the peers are installed, each in a folder of its own, from the repository's root.
const Cache = ".cache/bench"

// Python is the script that installs what a peer's requirements.txt lists, for venv/bin/python.
const Python = "python3 -m venv venv && venv/bin/pip install --no-input --disable-pip-version-check -r requirements.txt"

// Install copies a peer's folder, which has its program and the versions of the packages that this takes, and runs a script in the copy,
// unless the same was done before. It returns where the copy is.
func Install(ctx context.Context, name, source, script string, say func(format string, args ...any)) (home string, err error) {
	if home, err = filepath.Abs(filepath.Join(Cache, name)); err != nil {
		return "", err
	}
	files := os.DirFS(source)
	want, err := digest(files, script)
	if err != nil {
		return "", err
	}
	stamp := filepath.Join(home, ".installed")
	if have, err := os.ReadFile(stamp); err == nil && string(have) == want {
		return home, nil
	}
	say("install %s into %s, once", name, filepath.Join(Cache, name))
	if err := os.RemoveAll(home); err != nil {
		return "", err
	}
	if err := os.CopyFS(home, files); err != nil {
		return "", err
	}
	if err := run(ctx, home, script); err != nil {
		return "", err
	}
	return home, os.WriteFile(stamp, []byte(want), 0o600)
}

// digest is of all that decides what is installed.
func digest(files fs.FS, script string) (string, error) {
	sum := sha256.New()
	sum.Write([]byte(script))
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := fs.ReadFile(files, path)
		sum.Write(fmt.Appendf(nil, "\n%s %d\n%s", path, len(raw), raw))
		return err
	})
	return fmt.Sprintf("%x", sum.Sum(nil)), err
}

// shown is how much of what an installation says is shown when it fails, in bytes.
const shown = 2000

// run runs a script, and kills it with all that it has started when the context ends.
func run(ctx context.Context, dir, script string) error {
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	said, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, said[max(0, len(said)-shown):])
	}
	return nil
}
