package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/store"
)

// StoreVariable names the environment variable that holds the URL of a store other than the state folder's own.
const StoreVariable = "SLUICE_STORE"

// storeFile holds, in a state folder, the URL of its store when that is elsewhere.
const storeFile = "store.url"

// OpenStore opens the store that StoreVariable names, else the state folder's. It needs nothing to be running.
func OpenStore(ctx context.Context, state string) (*store.Store, error) {
	url, err := storeURL(state)
	if err != nil {
		return nil, err
	}
	return store.Open(ctx, url)
}

// storeURL is where a state folder's runs are kept.
func storeURL(state string) (string, error) {
	if url := os.Getenv(StoreVariable); url != "" {
		return url, nil
	}
	noted, err := os.ReadFile(filepath.Join(state, storeFile))
	if err == nil {
		return strings.TrimSpace(string(noted)), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("look where the runs of the state folder %s are kept: %w", state, err)
	}
	dir, err := filepath.Abs(filepath.Join(state, "store"))
	return "file://" + dir, err
}

// EnvironmentStore returns the URL of the store that the environment of a request asks for; empty when it asks for none. It is an error
// when a run of it would be kept elsewhere: open runs and records belong together, so a state folder has one store, the first it was used
// with.
func EnvironmentStore(state string, req SubmitRequest) (string, error) {
	url, _, err := environmentStore(state, req)
	return url, err
}

// SettleStore makes the store that the environment of a request asks for that of a state folder which nothing has been kept for yet. The
// error is that of EnvironmentStore, or says why the store cannot be used.
func SettleStore(ctx context.Context, state string, req SubmitRequest) error {
	url, isNew, err := environmentStore(state, req)
	if err != nil || !isNew {
		return err
	}
	if _, err := store.Open(ctx, url); err != nil {
		return err
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return fmt.Errorf("state folder %s cannot be made: %w: make it writable, or name another with --state", state, err)
	}
	if err := noteStore(filepath.Join(state, storeFile), url); err != nil {
		return fmt.Errorf("note the store of %s: %w", state, err)
	}
	return nil
}

// noteStore writes the file whole or not at all, unless somebody else's command has done so at the same moment: Submit compares.
func noteStore(file, url string) error {
	f, err := os.CreateTemp(filepath.Dir(file), storeFile+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(url + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), file); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// environmentStore also reports whether nothing was kept for the state folder so far.
func environmentStore(state string, req SubmitRequest) (url string, isNew bool, err error) {
	if req.EnvFile == "" {
		return "", false, nil
	}
	_, file, err := ReadDocuments(req.PipelineFile, req.EnvFile)
	if err != nil {
		return "", false, err
	}
	environment, diags := dsl.LoadEnvironment(file)
	if environment == nil {
		return "", false, &LintError{diags}
	}
	want := environment.Store.URL
	have, err := storeURL(state)
	switch {
	case err != nil || want == "" || want == have:
		return want, false, err
	case os.Getenv(StoreVariable) == "" && unused(state):
		return want, true, nil
	}
	return "", false, elsewhere(req.EnvFile, want, state, have)
}

// unused reports whether a state folder's store has not been chosen, by a run or by a Sluice that was up.
func unused(state string) bool {
	for _, trace := range []string{storeFile, "store", "lock"} {
		if _, err := os.Lstat(filepath.Join(state, trace)); !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}

// elsewhere says what to do about an environment whose store is not the one that runs are kept in.
func elsewhere(env, want, state, have string) error {
	help := fmt.Sprintf("give the environment a state folder of its own: --state %s-NAME, or SLUICE_STATE", strings.TrimSuffix(state, "/"))
	if os.Getenv(StoreVariable) != "" {
		help = fmt.Sprintf("unset %s, or set %[1]s=%s; workers on a cluster need the same", StoreVariable, want)
	}
	return contract.Error(contract.ErrInvalid, fmt.Sprintf("%s wants the store %s, but runs of the state folder %s are kept in %s\nhelp: %s",
		env, want, state, have, help), nil)
}
