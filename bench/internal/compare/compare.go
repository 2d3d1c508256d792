// Package compare has what the benches share: their main, figures, and other programs to compare with.
package compare

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/sluiceml/sluice/internal/proc"
)

// Main runs a bench whose flags are parsed, until it is interrupted.
func Main(run func(context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		Say("%v", err)
		os.Exit(1)
	}
}

// Say tells on standard error how it goes.
func Say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench "+filepath.Base(os.Args[0])+": "+format+"\n", args...)
}

// Program finds the sluice that is measured.
func Program(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%w: `make build` makes it", err)
	}
	return path, nil
}

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
func Install(ctx context.Context, name, source, script string) (home string, err error) {
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
	Say("install %s into %s, once", name, filepath.Join(Cache, name))
	if err := os.RemoveAll(home); err != nil {
		return "", err
	}
	if err := os.CopyFS(home, files); err != nil {
		return "", err
	}
	if err := Run(ctx, proc.Command{Path: "sh", Args: []string{"-c", script}, Dir: home}); err != nil {
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

// Run runs a command, and kills it with all that it has started when the context ends.
func Run(ctx context.Context, c proc.Command) error {
	said := proc.NewTail(20)
	c.Stdout, c.Stderr = said, said
	exit, err := proc.Run(ctx, c)
	if err == nil && !exit.OK() {
		err = fmt.Errorf("%s ended with %v:\n%s", filepath.Base(c.Path), exit, said)
	}
	return err
}
