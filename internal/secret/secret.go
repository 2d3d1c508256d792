// Package secret finds the values of secrets, in the place where they are needed and no earlier, and keeps them out of what is
// written there. Everything else knows secrets by name.
package secret

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
)

const (
	// maxLength bounds a secret: the kernel allows a variable of 128 KiB, name included.
	maxLength = 64 << 10
	// lookupLimit bounds the search for one value, with its retries.
	lookupLimit = 45 * time.Second
)

// Why a secret has no value. The errors of this package wrap one of these.
var (
	ErrNotFound    = errors.New("secret not found")                 // no such name, variable, file, path or key
	ErrForbidden   = errors.New("no permission to read the secret") // the file or Vault refuses
	ErrUnusable    = errors.New("secret cannot be used")            // its source or its value is not one a secret can have
	ErrSealed      = errors.New("vault is sealed")                  // nobody can read until a person unseals it
	ErrUnavailable = errors.New("secret cannot be read now")        // Vault does not answer, or not with sense
)

// Temporary reports whether a later try may find the value, without anybody changing the environment.
func Temporary(err error) bool { return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrSealed) }

// Typed types the error of a secret that could not be found. What Vault may answer later is infrastructure's; the rest is wrong until
// somebody changes the environment.
func Typed(err error) error {
	switch {
	case err == nil:
		return nil
	case Temporary(err):
		return fault.New(fault.Infrastructure, err.Error(), nil)
	}
	return fault.New(fault.Invalid, err.Error(), nil)
}

// failure is an error for people, of one of the reasons above.
type failure struct {
	reason error
	text   string
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.reason }

func fail(reason error, format string, args ...any) error {
	return &failure{reason, fmt.Sprintf(format, args...)}
}

// Resolver finds values. It keeps Vault's short-lived tokens and no values, so that a changed secret is seen by the next step. It may
// be used from several goroutines.
type Resolver struct {
	vault *vault
}

// NewResolver makes a Resolver.
func NewResolver() *Resolver {
	return &Resolver{vault: &vault{
		http:   &http.Client{Transport: http.DefaultTransport, CheckRedirect: sameServer},
		jwt:    serviceAccountToken,
		pause:  firstPause,
		tokens: map[string]lease{},
	}}
}

// Value returns the value of the secret that an environment calls name.
func (r *Resolver) Value(ctx context.Context, env *spec.Environment, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	source, ok := env.Secrets[name]
	if !ok {
		return "", fail(ErrNotFound, "the environment %s has no secret %q: add its source under `secrets:`", env.Name, name)
	}
	value, err := r.read(ctx, env, source)
	if err == nil {
		err = usable(value)
	}
	if err != nil {
		return "", fmt.Errorf("secret %s: %w", name, err)
	}
	return value, nil
}

// Values are secrets with what masks them.
type Values struct {
	// ByVariable are the values by the variable that a program finds each in.
	ByVariable map[string]string
	// Mask masks them all, and the passwords in URLs that every program inherits. It is nil when there are none.
	Mask *Mask
}

// Resolve finds the values of the secrets in names, which maps variables to secrets' names.
func (r *Resolver) Resolve(ctx context.Context, env *spec.Environment, names map[string]string) (Values, error) {
	found := make(map[string]string, len(names))
	for _, variable := range slices.Sorted(maps.Keys(names)) {
		value, err := r.Value(ctx, env, names[variable])
		if err != nil {
			return Values{}, fmt.Errorf("%s: %w", variable, err)
		}
		found[variable] = value
	}
	values := append(slices.Collect(maps.Values(found)), inheritedPasswords()...)
	if len(values) == 0 {
		return Values{}, nil
	}
	return Values{ByVariable: found, Mask: NewMask(values...)}, nil
}

// Variables are the environment variables that hold secrets of an environment, sorted. A program that has not asked for a secret must
// not inherit them.
func Variables(env *spec.Environment) []string {
	var all []string
	for _, source := range env.Secrets {
		if source.Env != "" {
			all = append(all, source.Env)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (r *Resolver) read(ctx context.Context, env *spec.Environment, source spec.SecretSource) (string, error) {
	switch {
	case source.Env != "":
		return readVariable(source.Env)
	case source.File != "":
		raw, err := readFile(source.File)
		return strings.TrimSuffix(strings.TrimSuffix(raw, "\n"), "\r"), err
	case source.Vault != "":
		return r.vault.read(ctx, env.Vault, source.Vault)
	}
	return "", fail(ErrUnusable, "it has no source: set env, file or vault")
}

// readVariable reads an environment variable. Those of Sluice and Temporal are no user's secrets: they rule the namespace.
func readVariable(name string) (string, error) {
	if strings.HasPrefix(name, "SLUICE_") || strings.HasPrefix(name, "TEMPORAL_") {
		return "", fail(ErrForbidden, "the variable %s is reserved by Sluice and cannot be a secret of a pipeline: use another name", name)
	}
	value, ok := os.LookupEnv(name)
	if !ok {
		return "", fail(ErrNotFound, "the environment variable %s is not set for the process that reads it", name)
	}
	return value, nil
}

// readFile reads a small file whole.
func readFile(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", fail(ErrUnusable, "the path %s is not absolute: workers run in folders of their own", path)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", fail(ErrNotFound, "the file %s does not exist on the machine that reads it", path)
	case errors.Is(err, os.ErrPermission):
		return "", fail(ErrForbidden, "no permission to read the file %s: grant it to the worker's user", path)
	case err != nil:
		return "", fail(ErrUnusable, "the file %s: %v", path, err)
	case !info.Mode().IsRegular(): // a pipe would wait for its writer
		return "", fail(ErrUnusable, "%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fail(ErrForbidden, "no permission to read the file %s: grant it to the worker's user", path)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxLength+2)) // its line break is no part of it
	if err != nil {
		return "", fail(ErrUnusable, "the file %s: %v", path, err)
	}
	return string(raw), nil
}

// usable refuses what can be no secret, without saying what it is.
func usable(value string) error {
	switch {
	case len(value) < minLength:
		return fail(ErrUnusable, "its value has %d bytes; values shorter than %d cannot be masked in logs", len(value), minLength)
	case len(value) > maxLength:
		return fail(ErrUnusable, "its value is longer than %d KiB, the maximum of an environment variable", maxLength>>10)
	case strings.Contains(value, "\x00"):
		return fail(ErrUnusable, "its value contains a NUL byte, which environment variables cannot; store it as base64")
	}
	return nil
}
