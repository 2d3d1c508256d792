package agent

import (
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/sluiceml/sluice/training/protocol"
)

func TestSIGTERMIsTheNotice(t *testing.T) {
	c := protocol.AgentConfig{Dir: filepath.Join(t.TempDir(), "node"), Grace: time.Hour}
	ctx, cancel := Lifetime(c)
	defer cancel()
	terminate(t)
	var notice protocol.NodeNotice
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		raw, err := os.ReadFile(filepath.Join(c.Dir, protocol.NoticeFile))
		if err == nil {
			err = json.Unmarshal(raw, &notice)
		}
		if err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	if left := time.Until(notice.Until); left < 59*time.Minute || left > time.Hour {
		t.Errorf("the notice leaves %v, want an hour", left)
	}
	if ctx.Err() != nil {
		t.Fatal("it ended with its notice")
	}
	terminate(t)
	ends(t, ctx.Done())
}

func TestSIGTERMEnds(t *testing.T) {
	c := protocol.AgentConfig{Dir: t.TempDir()}
	ctx, cancel := Lifetime(c)
	defer cancel()
	terminate(t)
	ends(t, ctx.Done())
	if _, err := os.Stat(filepath.Join(c.Dir, protocol.NoticeFile)); !os.IsNotExist(err) {
		t.Errorf("a notice was given: %v", err)
	}
}

func terminate(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

func ends(t *testing.T, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("it does not end")
	}
}
