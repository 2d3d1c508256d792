package control

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/internal/childenv"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/suggest"
)

// ReadDocuments reads a pipeline and, unless env is empty, its environment: a file, or the name of one in the folder environments
// beside the pipeline.
func ReadDocuments(pipeline, env string) (p, e document.File, err error) {
	p.Name = pipeline
	if p.Source, err = ReadDocument(pipeline); err != nil {
		return p, e, fmt.Errorf("read the pipeline: %w", err)
	}
	e, err = ReadEnvironment(pipeline, env)
	return p, e, err
}

// ReadEnvironment reads the environment that env is, or names beside a pipeline; one without a source when it is empty.
func ReadEnvironment(pipeline, env string) (e document.File, err error) {
	if env == "" {
		return e, nil
	}
	if e.Name, err = environmentFile(pipeline, env); err != nil {
		return e, err
	}
	if e.Source, err = ReadDocument(e.Name); err != nil {
		return e, fmt.Errorf("read the environment: %w", err)
	}
	return e, nil
}

// environmentFile is the file that env is, or names: prod for environments/prod.yaml.
func environmentFile(pipeline, env string) (string, error) {
	if filepath.Base(env) != env || filepath.Ext(env) != "" {
		return env, nil
	}
	for _, path := range []string{env, EnvironmentPath(pipeline, env)} {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	return "", fault.Errorf(fault.Invalid, "environment %q not found: there is neither a file of that name nor %s", env, EnvironmentPath(pipeline, env))
}

// environmentDocument finds what makes a document an environment: a key at the beginning of a line, or the first of a mapping in braces.
var environmentDocument = regexp.MustCompile(`(?m)(?:^|\A\s*\{\s*)["']?sluice["']?[ \t]*:[ \t]*["']?environment/`)

// IsEnvironment reports whether a document is an environment, and not a pipeline.
func IsEnvironment(source []byte) bool { return environmentDocument.Match(source) }

// pipelineDocument finds the line that makes a document a pipeline, and blockDocument that of a cleaning block.
var (
	pipelineDocument = regexp.MustCompile(`(?m)^["']?sluice["']?:`)
	blockDocument    = regexp.MustCompile(`(?m)^["']?(transforms|read|source)["']?:`)
)

// IsPipeline reports whether a document is a pipeline or an environment, and not a cleaning block.
func IsPipeline(source []byte) bool { return pipelineDocument.Match(source) }

// IsBlock reports whether a document is a cleaning block.
func IsBlock(source []byte) bool { return !IsPipeline(source) && blockDocument.Match(source) }

// EnvironmentPath is where the environment of a name is kept for a pipeline.
func EnvironmentPath(pipeline, name string) string {
	return filepath.Join(filepath.Dir(pipeline), "environments", name+".yaml")
}

// HintEnvironment says of a pipeline that was checked without an environment, where something of an environment is missing, that none was
// given, and names the one that lies beside it.
func HintEnvironment(pipeline string, diags document.Diagnostics) {
	hint := "no environment was given: name one with `-e`"
	beside, _ := filepath.Glob(filepath.Join(filepath.Dir(pipeline), "environments", "*.yaml")) // without them there is none to name
	for _, path := range append([]string{filepath.Join(filepath.Dir(pipeline), "environment.yaml")}, beside...) {
		if source, err := ReadDocument(path); err == nil && IsEnvironment(source) {
			hint = "no environment was given: `-e " + path + "` uses the one found here"
			break
		}
	}
	for i, d := range diags {
		if d.Code == "target" || d.Code == "pool" || d.Code == "secret" {
			diags[i].Hint = strings.TrimPrefix(d.Hint+"; "+hint, "; ")
		}
	}
}

// suggestFile adds to the error of a file that does not exist the YAML file beside it that has nearly its name.
func suggestFile(path string, err error) error {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		err = fmt.Errorf("%s: %w", path, failed.Err) // a user does not care which system call it was
	}
	var names []string
	entries, _ := os.ReadDir(filepath.Dir(path)) // without them there is no suggestion
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); ext == ".yaml" || ext == ".yml" {
			names = append(names, e.Name())
		}
	}
	if near := suggest.To(filepath.Base(path), names); near != "" && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w\nhelp: did you mean `%s`?", err, filepath.Join(filepath.Dir(path), near))
	}
	return err
}

// ReadDocument reads a pipeline or an environment, which is a file: the folder around it is what a run is given. Of one that dsl
// refuses for its size no more is read than it takes to refuse it.
func ReadDocument(path string) (_ []byte, err error) {
	info, err := os.Stat(path) // before it is opened, for the opening of a pipe would wait
	if err != nil {
		return nil, suggestFile(path, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fault.Errorf(fault.Invalid, "%s is not a file\nhelp: use the path of the YAML file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(io.LimitReader(f, document.MaxSource+1))
}

// Withheld returns the variables of this process that programs of a pipeline may expect and do not get, sorted: none that the pipeline sets.
func Withheld(pipelineFile string) ([]string, error) {
	source, err := ReadDocument(pipelineFile)
	if err != nil {
		return nil, err
	}
	return childenv.Withheld(os.Environ(), string(source), filepath.Dir(pipelineFile), func(variable string) bool {
		return childenv.Inheritable(variable) || regexp.MustCompile(`\b`+regexp.QuoteMeta(variable)+`["']?\s*:`).Match(source)
	}), nil
}
