package worker

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/worker/embedded"
	"github.com/sluiceml/sluice/worker/holder"
)

// alwaysIgnored never belongs to a workspace: version control, state, environments and caches.
var alwaysIgnored = []string{".git", ".sluice", ".venv", "__pycache__", "node_modules"}

// leftOut says which paths of a pipeline's folder are no part of its workspace: what .sluiceignore names, state folders, which change
// while they are read, environments, and what this process writes its own output to, as in `sluice run pipeline.yaml > run.log`, which would make other
// files of it every time.
func leftOut(dir, state string) (func(path string) bool, error) {
	ignored, err := readIgnore(filepath.Join(dir, ".sluiceignore"))
	if err != nil {
		return nil, err
	}
	own := outputs(dir, os.Stdout, os.Stderr)
	state = within(dir, state)
	return func(p string) bool {
		return p == state || ignored(p) || own(p) || holdsToken(filepath.Join(dir, p)) || isEnvironment(dir, p)
	}, nil
}

// isEnvironment reports whether a file is one of the pipeline's environments. The one that a run has travels with it, and another one
// makes no other run of it.
func isEnvironment(dir, p string) bool {
	name, yaml := strings.CutSuffix(path.Base(p), ".yaml")
	file := filepath.Join(dir, p)
	if !yaml || file != EnvironmentPath(filepath.Join(dir, "pipeline.yaml"), name) {
		return false
	}
	source, err := ReadDocument(file)
	return err == nil && IsEnvironment(source)
}

// holdsToken reports whether a folder is the state folder of another `--state`, whose token would go wherever the workspace goes.
func holdsToken(folder string) bool {
	for _, name := range []string{holder.LockFile, embedded.TokenFile} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			return false
		}
	}
	return true
}

// within is the path of a folder as seen from another; empty where there is none.
func within(dir, folder string) string {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return ""
	}
	if folder, err = filepath.Abs(folder); err != nil {
		return ""
	}
	inside, err := filepath.Rel(dir, folder)
	if err != nil {
		return ""
	}
	return filepath.ToSlash(inside)
}

// outputs says which paths of a folder are the files that are written to.
func outputs(dir string, files ...*os.File) func(path string) bool {
	var written []fs.FileInfo
	for _, f := range files {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() { // a closed one is no file
			written = append(written, info)
		}
	}
	return func(p string) bool {
		if len(written) == 0 {
			return false
		}
		info, err := os.Stat(filepath.Join(dir, p))
		return err == nil && slices.ContainsFunc(written, func(w fs.FileInfo) bool { return os.SameFile(w, info) })
	}
}

// readIgnore reads a .sluiceignore: a pattern a line, as of path.Match, against the name of a file or folder or, with a slash in it,
// against its path in the workspace; # begins a comment. The answer says which paths are left out.
func readIgnore(file string) (func(path string) bool, error) {
	patterns := alwaysIgnored
	f, err := os.Open(file)
	if err == nil {
		defer f.Close()
		lines := bufio.NewScanner(f)
		for n := 1; lines.Scan(); n++ {
			p := strings.TrimSuffix(strings.TrimSpace(lines.Text()), "/")
			if p == "" || strings.HasPrefix(p, "#") {
				continue
			}
			if _, err := path.Match(p, ""); err != nil {
				return nil, fmt.Errorf("%s:%d: pattern %q: %w", file, n, p, err)
			}
			patterns = append(patterns, strings.TrimPrefix(p, "/"))
		}
		if err := lines.Err(); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return func(p string) bool { return ignored(patterns, p) }, nil
}

// ignored reports whether p or a folder above it matches a pattern.
func ignored(patterns []string, p string) bool {
	for ; p != "." && p != "/"; p = path.Dir(p) {
		for _, pattern := range patterns {
			subject := path.Base(p)
			if strings.Contains(pattern, "/") {
				subject = p
			}
			if ok, _ := path.Match(pattern, subject); ok {
				return true
			}
		}
	}
	return false
}
