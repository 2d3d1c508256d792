package control

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluiceml/sluice/connect/embedded"
	"github.com/sluiceml/sluice/connect/state"
	"github.com/sluiceml/sluice/connect/state/holder"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/store"
)

// workspace says which paths of a pipeline's folder are part of a run's workspace.
type workspace struct {
	// dir is the pipeline's folder. state and store are the paths of the state folder and of the store, if it is a folder, relative to dir.
	dir, state, store string
	rules             []rule
	// own is what this process writes its own output to, as in `sluice run pipeline.yaml > run.log`, which would make other files of it
	// every time; keys is what the environment and the payload codec read secrets from.
	own, keys []fs.FileInfo
	// withheld are the paths left out for the secrets that they seem to hold, so far.
	withheld []string
}

// workspaceOf is that of a pipeline in dir. keys are files that hold secrets.
func workspaceOf(dir, stateDir string, keys []string) (*workspace, error) {
	rules, err := readIgnore(filepath.Join(dir, ignoreFile))
	if err != nil {
		return nil, err
	}
	w := &workspace{dir: dir, state: within(dir, stateDir), rules: rules}
	url, err := state.StoreURL(stateDir)
	if err != nil {
		return nil, err
	}
	if folder, isFolder := strings.CutPrefix(url, "file://"); isFolder {
		w.store = within(dir, folder)
	}
	for _, f := range []*os.File{os.Stdout, os.Stderr} {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() { // a closed one is no file
			w.own = append(w.own, info)
		}
	}
	for _, name := range keys {
		if info, err := os.Stat(name); err == nil {
			w.keys = append(w.keys, info)
		}
	}
	return w, nil
}

// ignores reports whether a path, in folders that are not left out, is no part of the workspace.
func (w *workspace) ignores(p string) bool {
	out := w.exclusionOf(p)
	if out != nil && out.secret {
		w.withheld = append(w.withheld, p)
	}
	return out != nil
}

// exclusion is why a path is no part of the workspace.
type exclusion struct {
	why, help string
	secret    bool // it seems to hold secrets
}

// exclusionOf says why a path is no part of the workspace: what .sluiceignore names, secrets, state folders and the store, which
// change while they are read, and environments are not. It is nil for what is part of it.
func (w *workspace) exclusionOf(p string) *exclusion {
	file := filepath.Join(w.dir, p)
	info, err := os.Lstat(file)
	last := lastMatch(w.rules, p, err == nil && info.IsDir())
	takeAlong := fmt.Sprintf("to include it, add the line !%s to %s", p, ignoreFile)
	const elsewhere = "keep files that steps need elsewhere in the pipeline's folder"
	switch {
	case last != nil && last.secret:
		return &exclusion{why: "files of this name usually hold secrets", help: takeAlong, secret: true}
	case last != nil && last.line > 0 && !last.take:
		return &exclusion{why: fmt.Sprintf("%s:%d excludes it", ignoreFile, last.line), help: takeAlong + ", below that one"}
	case last != nil && !last.take:
		return &exclusion{why: "files of this name are never included", help: elsewhere}
	case last == nil && isVenv(file):
		return &exclusion{why: "it is a Python virtual environment", help: takeAlong + "; steps use the .venv beside the pipeline in place"}
	case last == nil && isOne(file, w.keys):
		return &exclusion{why: "secrets are read from it", help: takeAlong, secret: true}
	case p == w.state || isStateDir(file):
		return &exclusion{why: "it is a state folder", help: elsewhere}
	case p == w.store:
		return &exclusion{why: "it is the store", help: elsewhere}
	case isOne(file, w.own):
		return &exclusion{why: "this command writes to it", help: elsewhere}
	case isEnvironment(w.dir, p):
		return &exclusion{why: "it is one of the pipeline's environments, and a run only gets its own", help: "copy what steps need from it to a file in another folder"}
	}
	return nil
}

// notAFile says what to do about something in a pipeline's folder that cannot be part of a workspace. Other errors stay as they are.
func notAFile(pipeline string, err error) error {
	odd := new(store.IrregularError)
	if !errors.As(err, &odd) {
		return err
	}
	kept := "if a step needs it, replace it with a regular file or folder"
	if !utf8.ValidString(odd.Path) {
		kept = "if a step needs it, rename it"
	}
	return fault.Errorf(fault.Invalid, "%s, in the folder of %s, %s, so it cannot be uploaded with the run\nhelp: if no step needs it, add the line %s to %s; %s",
		odd.Name(), pipeline, odd.Why, patternOf(odd.Path), ignoreFile, kept)
}

// isVenv reports whether a folder is a virtual environment, whatever its name. It works where it was made, and nowhere else.
func isVenv(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "pyvenv.cfg"))
	return err == nil
}

// largeWorkspace is how many bytes of a pipeline's folder are worth a word before they are copied.
const largeWorkspace = 100 << 20

// fewEntries is how many of the biggest entries of a folder are named.
const fewEntries = 5

// Large says what is biggest of what goes along with a run, where that is much; else it is empty. Nothing is read for it but the folder.
func Large(req SubmitRequest, stateDir string) (string, error) {
	program, err := req.Program()
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(req.PipelineFile)
	w, err := workspaceOf(dir, stateDir, keyFiles(program.Environment()))
	if err != nil {
		return "", err
	}
	sizes := map[string]int64{}
	total := int64(0)
	err = filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		p := within(dir, file)
		switch {
		case err != nil || p == ".":
			return err
		case w.ignores(p) && entry.IsDir():
			return fs.SkipDir
		case w.ignores(p) || entry.IsDir():
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		top, _, below := strings.Cut(p, "/")
		if below {
			top += "/"
		}
		sizes[top] += info.Size()
		total += info.Size()
		return nil
	})
	if err != nil || total < largeWorkspace {
		return "", err
	}
	names := slices.SortedFunc(maps.Keys(sizes), func(a, b string) int { return cmp.Or(cmp.Compare(sizes[b], sizes[a]), cmp.Compare(a, b)) })
	parts := make([]string, 0, fewEntries)
	for _, name := range names[:min(len(names), fewEntries)] {
		parts = append(parts, name+" "+human.Bytes(sizes[name]))
	}
	return fmt.Sprintf("%s of %s are uploaded with the run, and kept in the store: %s\nhelp: list files that no step reads in %s; keep data that steps read elsewhere, "+
		"and fetch it in a step", human.Bytes(total), dir, strings.Join(parts, ", "), ignoreFile), nil
}

// isOne reports whether a file is one of those known, whatever its name.
func isOne(file string, known []fs.FileInfo) bool {
	if len(known) == 0 {
		return false
	}
	info, err := os.Stat(file)
	return err == nil && slices.ContainsFunc(known, func(k fs.FileInfo) bool { return os.SameFile(k, info) })
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

// isStateDir reports whether a folder is the state folder of another `--state`, whose token would go wherever the workspace goes.
func isStateDir(folder string) bool {
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
