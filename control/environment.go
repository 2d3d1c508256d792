package control

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/sluiceml/sluice/connect/state"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
)

// EnvironmentStore returns the URL of the store that the environment of a request asks for; empty when it asks for none. It is an error
// when a run of it would be kept elsewhere: open runs and records belong together, so a state folder has one store, the first it was used
// with.
func EnvironmentStore(state string, req *SubmitRequest) (string, error) {
	url, _, err := environmentStore(state, req)
	return url, err
}

// SettleStore makes the store that the environment of a request asks for that of a state folder which nothing has been kept for yet. The
// error is that of EnvironmentStore, or says why the store cannot be used.
func SettleStore(ctx context.Context, stateDir string, req *SubmitRequest) error {
	url, isNew, err := environmentStore(stateDir, req)
	if err != nil || !isNew {
		return err
	}
	return noteStore(ctx, stateDir, url)
}

// UseStore makes the store that an environment names, "" for none, that of a state folder which nothing has been kept for yet, as SettleStore
// does for a run.
func UseStore(ctx context.Context, stateDir, envFile, want string) error {
	url, isNew, err := storeOf(stateDir, envFile, want)
	if err != nil || !isNew {
		return err
	}
	return noteStore(ctx, stateDir, url)
}

func noteStore(ctx context.Context, stateDir, url string) error {
	if _, err := store.Open(ctx, url); err != nil {
		return err
	}
	return state.NoteStore(stateDir, url)
}

// environmentStore also reports whether nothing was kept for the state folder so far.
func environmentStore(stateDir string, req *SubmitRequest) (url string, isNew bool, err error) {
	if req.EnvFile == "" {
		return "", false, nil
	}
	program, _, err := req.load()
	if err != nil {
		return "", false, err
	}
	return storeOf(stateDir, req.EnvFile, program.Environment().Store.URL)
}

func storeOf(stateDir, envFile, want string) (url string, isNew bool, err error) {
	have, err := state.StoreURL(stateDir)
	switch {
	case err != nil || want == "" || want == have:
		return want, false, err
	case os.Getenv(state.StoreVariable) == "" && state.Unused(stateDir):
		return want, true, nil
	}
	return "", false, storeConflict(envFile, want, stateDir, have)
}

// storeConflict says what to do about an environment whose store is not the one that runs are kept in.
func storeConflict(env, want, stateDir, have string) error {
	help := fmt.Sprintf("use a separate state folder for this environment: --state %s-NAME, or SLUICE_STATE", strings.TrimSuffix(stateDir, "/"))
	if os.Getenv(state.StoreVariable) != "" {
		help = fmt.Sprintf("unset %s, or set %[1]s=%s; do the same for workers on a cluster", state.StoreVariable, want)
	}
	return fault.Errorf(fault.Invalid, "%s selects the store %s, but the runs of the state folder %s are kept in %s\nhelp: %s",
		env, want, stateDir, have, help)
}
