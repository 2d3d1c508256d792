package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/worker"
)

// load reads and checks a pipeline and, unless env is empty, its environment. The program is nil when a finding is an error.
func load(pipeline, env string) (*dsl.Program, dsl.Diagnostics, error) {
	p, e := dsl.File{Name: pipeline}, dsl.File{Name: env}
	var err error
	if p.Source, err = worker.ReadDocument(pipeline); err != nil {
		return nil, nil, fmt.Errorf("read the pipeline: %w", err)
	}
	if env != "" {
		if e.Source, err = worker.ReadDocument(env); err != nil {
			return nil, nil, fmt.Errorf("read the environment: %w", err)
		}
	}
	program, findings := dsl.Compile(p, e, folder(filepath.Dir(pipeline)))
	return program, findings, nil
}

// folder is a pipeline's folder, where the files that it names must be.
type folder string

// Exists implements dsl.Workspace.
func (f folder) Exists(path string) bool {
	_, err := os.Stat(filepath.Join(string(f), path))
	return err == nil
}

// ReadFile implements dsl.Workspace.
func (f folder) ReadFile(path string) ([]byte, error) {
	if !filepath.IsLocal(path) {
		return nil, fs.ErrNotExist
	}
	return worker.ReadDocument(filepath.Join(string(f), path))
}
