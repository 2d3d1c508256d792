package script

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/internal/secret"
	"github.com/sluiceml/sluice/store"
)

const (
	// valuesFile, in the output folder, holds the declared values as one JSON object.
	valuesFile = "outputs.json"
	// maxValues bounds valuesFile, maxLine a line of the metrics file.
	maxValues = 1 << 20
	maxLine   = 1 << 20
)

// Collect takes the declared outputs: artifacts are stored, values read from outputs.json. Whatever is declared and missing, or of
// another type, is the user's error.
func Collect(ctx context.Context, s *store.Store, declared map[string]spec.OutputDecl, output string) (map[string]any, error) {
	values, err := readValues(filepath.Join(output, valuesFile))
	if err != nil {
		return nil, err
	}
	all := make(map[string]any, len(declared))
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		decl := declared[name]
		switch artifact.Type(decl.Type) {
		case artifact.Dataset, artifact.Model, artifact.Checkpoint:
			if all[name], err = putOutput(ctx, s, name, decl, output); err != nil {
				return nil, err
			}
		default:
			if all[name], err = valueOf(name, decl.Type, values); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// putOutput stores one artifact. A single file becomes a tree of that one file.
func putOutput(ctx context.Context, s *store.Store, name string, decl spec.OutputDecl, output string) (artifact.Ref, error) {
	file, err := Confined(output, decl.Path)
	if err != nil {
		return artifact.Ref{}, err
	}
	_, err = os.Lstat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ELOOP):
		return artifact.Ref{}, fault.Errorf(fault.User, "output %q: the program did not create $SLUICE_OUTPUT_DIR/%s", name, decl.Path)
	case err != nil:
		return artifact.Ref{}, fmt.Errorf("output %s: %w", name, err)
	}
	if leadsOut(output, file) {
		return artifact.Ref{}, fault.Errorf(fault.User, "output %q: %s in $SLUICE_OUTPUT_DIR is reached through a symbolic link that leads out of that folder; copy the files into it", name, decl.Path)
	}
	dir, only := filepath.Dir(file), filepath.Base(file)
	skip := func(p string) bool { return p != only }
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		dir, only, skip = file, "", nil
	}
	ref, err := s.PutTree(ctx, artifact.Type(decl.Type), dir, nil, skip)
	odd := new(store.IrregularError)
	if errors.As(err, &odd) {
		at := *odd
		at.Path = path.Join(decl.Path, odd.Path)
		if only != "" {
			at.Path = decl.Path
		}
		kept := ", but an output must be a file or a folder of files"
		if !utf8.ValidString(at.Path) {
			kept = "; let the program write it under another name"
		}
		return artifact.Ref{}, fault.Errorf(fault.User, "output %q: %s in $SLUICE_OUTPUT_DIR %s%s", name, at.Name(), at.Why, kept)
	}
	if err == nil && ref.Files == 0 && artifact.Type(decl.Type) != artifact.Dataset { // one of no rows is a result
		return artifact.Ref{}, fault.Errorf(fault.User, "output %q: the program created no file in $SLUICE_OUTPUT_DIR/%s, but a %s needs at least one", name, decl.Path, decl.Type)
	}
	return ref, err
}

// leadsOut reports whether a file that can be reached lies outside the folder, behind a link.
func leadsOut(folder, file string) bool {
	inside, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return false
	}
	leads, err := filepath.EvalSymlinks(file)
	if err != nil {
		return false // it cannot be read either
	}
	rel, err := filepath.Rel(inside, leads)
	return err != nil || !filepath.IsLocal(rel)
}

// RefuseSecrets fails a program whose outputs or metrics hold a secret: they go into history and into the run's records.
func RefuseSecrets(outputs map[string]any, mask *secret.Mask) error {
	for _, name := range slices.Sorted(maps.Keys(outputs)) {
		switch v := outputs[name].(type) {
		case map[string]float64:
			for _, metric := range slices.Sorted(maps.Keys(v)) {
				if mask.Holds(v[metric]) {
					return secretLeft("metric", metric)
				}
			}
		default:
			if mask.Holds(v) {
				return secretLeft("output", name)
			}
		}
	}
	return nil
}

func secretLeft(what, name string) error {
	return fault.Errorf(fault.User, "%s %q contains the value of a secret, and everyone could read it in the run's records", what, name)
}

func readValues(path string) (map[string]any, error) {
	// Not by opening it: a named pipe would be waited for.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fault.New(fault.User, valuesFile+" in $SLUICE_OUTPUT_DIR is not a regular file", nil)
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read the outputs: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxValues+1))
	if err != nil {
		return nil, fmt.Errorf("read the outputs: %w", err)
	}
	if len(text) > maxValues {
		return nil, fault.New(fault.User, valuesFile+" is larger than 1 MiB: pass large values as files, in an output of type dataset", nil)
	}
	var values spec.Values
	dec := json.NewDecoder(bytes.NewReader(text))
	if err := dec.Decode(&values); err != nil {
		return nil, fault.Errorf(fault.User, "%s is not a JSON object: %v", valuesFile, err)
	}
	if rest := bytes.TrimLeft(text[dec.InputOffset():], " \t\r\n"); len(rest) > 0 {
		line := 1 + bytes.Count(text[:len(text)-len(rest)], []byte("\n"))
		return nil, fault.Errorf(fault.User, "%s must hold one JSON object, but something follows it in line %d: %s; write all values into one object, and the file anew instead of appending to it",
			valuesFile, line, human.Cut(human.Line(string(rest)), 60))
	}
	return values, nil
}

func valueOf(name, typ string, values map[string]any) (any, error) {
	v, ok := values[name]
	if !ok {
		return nil, fault.Errorf(fault.User, "output %q: %s in $SLUICE_OUTPUT_DIR does not contain it", name, valuesFile)
	}
	switch typ {
	case "string":
		_, ok = v.(string)
	case "bool":
		_, ok = v.(bool)
	case "double":
		ok = isNumber(v)
	case "int":
		if n, isDouble := v.(float64); isDouble && n == math.Trunc(n) && math.Abs(n) <= 1<<53 { // such as 1e3
			v = int64(n)
		}
		_, ok = v.(int64)
	}
	if !ok {
		return nil, fault.Errorf(fault.User, "output %q is declared as %s, but %s holds %s", name, typ, valuesFile, described(v))
	}
	return v, nil
}

func isNumber(v any) bool {
	switch v.(type) {
	case int64, float64:
		return true
	}
	return false
}

// described is a value of JSON with what it is, since a text may look like anything else.
func described(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	written := human.Cut(string(raw), 60)
	if _, isText := v.(string); isText {
		return "the text " + written
	}
	if isNumber(v) {
		return "the number " + written
	}
	return written
}

// Metrics reads a metrics file, JSON lines, and returns the last value of each declared metric. What else is reported is passed over, as
// in a training; a declared metric that is never reported is the user's error.
func Metrics(path string, declared []string) (map[string]float64, error) {
	last, others := map[string]float64{}, map[string]bool{}
	f, err := os.Open(path)
	if err == nil {
		defer f.Close()
		if err := scanMetrics(f, declared, last, others); err != nil {
			return nil, err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the metrics: %w", err)
	}
	for _, name := range declared {
		if _, ok := last[name]; ok {
			continue
		}
		if len(others) > 0 {
			return nil, fault.Errorf(fault.User, "metric %q is declared, but the program never wrote it to $SLUICE_METRICS; it wrote these, which are not in `metrics:`: %s",
				name, strings.Join(slices.Sorted(maps.Keys(others)), ", "))
		}
		return nil, fault.Errorf(fault.User, "metric %q is declared, but the program never wrote it to $SLUICE_METRICS", name)
	}
	return last, nil
}

func scanMetrics(r io.Reader, declared []string, last map[string]float64, others map[string]bool) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		var values map[string]*float64 // a null is no zero
		if err := json.Unmarshal(lines.Bytes(), &values); err != nil || values == nil {
			return fault.Errorf(fault.User, "$SLUICE_METRICS line %d is not a JSON object of numbers: %.100s", n, lines.Text())
		}
		for _, name := range slices.Sorted(maps.Keys(values)) {
			switch v := values[name]; {
			case v == nil:
				return fault.Errorf(fault.User, "$SLUICE_METRICS line %d reports %q without a number", n, name)
			case slices.Contains(declared, name):
				last[name] = *v
			case name != "step" && name != "of":
				others[name] = true
			}
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return fault.Errorf(fault.User, "$SLUICE_METRICS has a line longer than %d bytes", maxLine)
	} else if err != nil {
		return fmt.Errorf("read the metrics: %w", err)
	}
	return nil
}
