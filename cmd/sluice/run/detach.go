package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/sluiceml/sluice/connect"
	folder "github.com/sluiceml/sluice/connect/state"
	"github.com/sluiceml/sluice/connect/state/holder"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/store/record"
)

const (
	// holderPatience is how long a Sluice in the background may take to come up.
	holderPatience = time.Minute
	// beginPatience is how long a detached run may take to begin.
	beginPatience = 10 * time.Second
)

// background carries on the runs that a command leaves behind.
type background struct {
	state string
	notes io.Writer
	pid   int // of the Sluice that this command started; 0 if there is none
}

// takeOver sees to it that the runs which a command leaves behind, so many, go on when it exits, and says where, if that is its doing. The
// command no longer holds the folder.
func (b *background) takeOver(ctx context.Context, runs int) error {
	if runs == 0 {
		return nil
	}
	if err := b.ensure(ctx); err != nil || b.pid == 0 {
		return err
	}
	what := "1 run goes"
	if runs > 1 {
		what = human.Plural(int64(runs), "run") + " go"
	}
	_, err := fmt.Fprintf(b.notes, "sluice: %s on in the background (process %d); see `sluice list`\n", what, b.pid)
	return err
}

// tell says that other runs may not go on, to a user whose own run has ended: the exit code is that run's.
func (b *background) tell(err error) {
	if err != nil {
		fmt.Fprintf(b.notes, "sluice: other runs that are still open continue when Sluice is next started: %v\n", err) //nolint:errcheck // the exit code says how the run ended
	}
}

// detached waits until a run that a command has started has begun, so that the holder of the folder knows of it when it looks for open runs,
// and returns how many runs the command leaves behind. It does not wait for a holder that ends without having begun the run.
func detached(ctx context.Context, s *control.Session, run string) (runs int, err error) {
	if connect.ClusterNamed() {
		return 0, nil // the cluster's workers execute it
	}
	waiting, cancel := context.WithTimeout(ctx, beginPatience)
	defer cancel()
	for range poll.Every(waiting, 20*time.Millisecond) {
		if s.Store.GetJSON(waiting, record.RunKey(run), &record.RunRecord{}) == nil {
			break
		}
		if now, held, err := holder.Find(s.Dir); err != nil || !held || now.PID != s.Info.PID {
			break
		}
	}
	if s.Holder == nil {
		return 1, nil
	}
	runs, err = s.OpenRuns(ctx)
	return max(runs, 1), err
}

// ensure sees to it that a process holds the folder, and so executes its runs: the one that does already, or a `sluice up` that it starts in
// a session of its own. On a cluster the cluster's workers execute them.
func (b *background) ensure(ctx context.Context) error {
	if connect.ClusterNamed() {
		return nil
	}
	if err := folder.Check(b.state); err != nil {
		return err
	}
	if _, held, err := holder.Find(b.state); err != nil || held {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start Sluice in the background: %w", err)
	}
	if err := os.MkdirAll(b.state, 0o700); err != nil {
		return fmt.Errorf("start Sluice in the background: %w", err)
	}
	path := filepath.Join(b.state, "up.log")
	log, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintf(log, "# started in the background on %s\n", time.Now().UTC().Format(time.DateTime+" MST")) // fails where there is no room for its log
	}
	if err != nil {
		return fmt.Errorf("start Sluice in the background: %w", err)
	}
	up := exec.Command(exe, "up", "--state", b.state) //nolint:noctx // it outlives this process
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
	held, err := awaitHolder(ctx, b.state, path, up.Process.Pid, ended)
	if held {
		b.pid = up.Process.Pid
	}
	return err
}

// awaitHolder waits until the process pid holds the folder, and reports whether it does. If another process was faster, this one exits. Whose
// address is found before that may be the earlier holder's, which is withdrawn a moment after the folder is taken.
func awaitHolder(ctx context.Context, state, log string, pid int, ended <-chan struct{}) (bool, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, holderPatience, fmt.Errorf("it is not ready after %s", holderPatience))
	defer cancel()
	again := time.Tick(50 * time.Millisecond)
	for exited := false; ; {
		info, held, err := holder.Find(state)
		if err != nil || held && (exited || info.PID == pid) {
			return held && info.PID == pid, err
		}
		if exited {
			return false, fmt.Errorf("start Sluice in the background: the process exited immediately; see %s%s", log, endOf(log))
		}
		select {
		case <-again:
		case <-ended:
			exited = true // perhaps since another process holds the folder
		case <-ctx.Done():
			return false, fmt.Errorf("start Sluice in the background: %w; see %s", context.Cause(ctx), log)
		}
	}
}

// shownLog is how much of the end of a log an error shows.
const shownLog = 1000

// endOf is the end of a log, on lines of its own; empty where there is none.
func endOf(log string) string {
	text, err := os.ReadFile(log)
	if err != nil || len(text) == 0 {
		return ""
	}
	return "\n" + strings.ToValidUTF8(string(text[max(0, len(text)-shownLog):]), "")
}
