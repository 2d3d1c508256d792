package runs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sluiceml/sluice/connect"
	folder "github.com/sluiceml/sluice/connect/state"
	"github.com/sluiceml/sluice/connect/state/holder"
)

// holderPatience is how long a Sluice in the background may take to come up.
const holderPatience = time.Minute

// ensureHolder sees to it that some process carries runs on after this one: the folder's holder, or a `sluice up` it starts in a
// session of its own. On a cluster the cluster's workers do.
func ensureHolder(ctx context.Context, state string) error {
	if connect.ClusterNamed() {
		return nil
	}
	if err := folder.Check(state); err != nil {
		return err
	}
	if _, held, err := holder.Find(state); err != nil || held {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start Sluice in the background: %w", err)
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return fmt.Errorf("start Sluice in the background: %w", err)
	}
	path := filepath.Join(state, "up.log")
	log, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start Sluice in the background: %w", err)
	}
	up := exec.Command(exe, "up", "--state", state) //nolint:noctx // it outlives this process
	up.Stdout, up.Stderr = log, log
	up.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = errors.Join(up.Start(), log.Close())
	if err != nil {
		return fmt.Errorf("start Sluice in the background: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		up.Wait() //nolint:errcheck // its log says why
		close(ended)
	}()
	return awaitHolder(ctx, state, path, ended)
}

// awaitHolder waits until the folder is held.
func awaitHolder(ctx context.Context, state, log string, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeoutCause(ctx, holderPatience, fmt.Errorf("it is not ready after %s", holderPatience))
	defer cancel()
	again := time.Tick(50 * time.Millisecond)
	for {
		if _, held, err := holder.Find(state); err != nil || held {
			return err
		}
		select {
		case <-again:
		case <-ended:
			return fmt.Errorf("start Sluice in the background: the process exited immediately; see %s", log)
		case <-ctx.Done():
			return fmt.Errorf("start Sluice in the background: %w; see %s", context.Cause(ctx), log)
		}
	}
}
