package control

import (
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sluiceml/sluice/connect/state"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/environment"
)

// Folder is a pipeline's folder, where the files that it names must be. It implements document.Workspace.
type Folder struct {
	dir       string
	workspace *workspace
}

// OpenFolder returns the folder of a pipeline that is checked against an environment, which may be empty.
func OpenFolder(pipeline string, env document.File) (*Folder, error) {
	dir := filepath.Dir(pipeline)
	var keys []string
	if e, _ := environment.LoadFile(env); env.Source != nil && e != nil { // what is wrong with it is said where the pipeline is checked
		keys = keyFiles(e)
	}
	w, err := workspaceOf(dir, filepath.Join(dir, state.Dir), keys)
	return &Folder{dir, w}, err
}

// Exists implements document.Workspace.
func (f *Folder) Exists(path string) bool {
	_, err := os.Stat(filepath.Join(f.dir, path))
	return err == nil
}

// LeftOut implements document.Workspace.
func (f *Folder) LeftOut(path string) (why, help string) {
	for end := range len(path) + 1 {
		if end < len(path) && path[end] != '/' {
			continue
		}
		if out := f.workspace.exclusionOf(path[:end]); out != nil {
			return out.why, out.help
		}
	}
	return "", ""
}

// ReadFile implements document.Workspace.
func (f *Folder) ReadFile(path string) ([]byte, error) {
	if !filepath.IsLocal(path) {
		return nil, fs.ErrNotExist
	}
	return ReadDocument(filepath.Join(f.dir, path))
}
