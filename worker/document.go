package worker

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl"
)

// ReadDocuments reads a pipeline and, unless env is empty, its environment.
func ReadDocuments(pipeline, env string) (p, e dsl.File, err error) {
	p.Name, e.Name = pipeline, env
	if p.Source, err = ReadDocument(pipeline); err != nil {
		return p, e, fmt.Errorf("read the pipeline: %w", err)
	}
	if env != "" {
		if e.Source, err = ReadDocument(env); err != nil {
			return p, e, fmt.Errorf("read the environment: %w", err)
		}
	}
	return p, e, nil
}

// ReadDocument reads a pipeline or an environment, which is a file: the folder around it is what a run is given. Of one that dsl
// refuses for its size no more is read than it takes to refuse it.
func ReadDocument(path string) (_ []byte, err error) {
	info, err := os.Stat(path) // before it is opened, for the opening of a pipe would wait
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, contract.Error(contract.ErrInvalid, fmt.Sprintf("%s is no file\nhelp: name the YAML file itself", path), nil)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(io.LimitReader(f, dsl.MaxSource+1))
}

// Folder is a pipeline's folder, where the files that it names must be.
type Folder string

// Exists implements dsl.Workspace.
func (f Folder) Exists(path string) bool {
	_, err := os.Stat(filepath.Join(string(f), path))
	return err == nil
}

// ReadFile implements dsl.Workspace.
func (f Folder) ReadFile(path string) ([]byte, error) {
	if !filepath.IsLocal(path) {
		return nil, fs.ErrNotExist
	}
	return ReadDocument(filepath.Join(string(f), path))
}
