package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluiceml/sluice/internal/script"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
	"github.com/sluiceml/sluice/training/protocol"
)

// hanging makes steps until it is told to hang: then it hears no SIGTERM, and a process of its own has left for another session.
const hanging = `
trap '' TERM
step=0
until [ -e "$SLUICE_OUTPUT_DIR/hang" ]; do
  step=$((step + 1))
  echo "{\"step\":$step,\"loss\":1}" >> "$SLUICE_METRICS"
  sleep 0.02
done
setsid sleep 600 &
echo "$$ $!" > "$SLUICE_OUTPUT_DIR/processes"
echo "waiting after step $step"
wait
`

// TestHang: a rank that stops making steps is killed, with all it started, and said to have hung.
func TestHang(t *testing.T) {
	s, err := store.Open(t.Context(), "mem://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	n := &node{config: protocol.AgentConfig{Dir: dir, LogDir: filepath.Join(dir, "logs"), Host: "127.0.0.1"}, store: s, log: slog.Default(), stallFloor: time.Second}
	p := &prepared{key: training.Key{Run: "r", Step: "s", Generation: 1}, seal: checkpoint.Seal{Generation: 1}}
	if err := p.makeDirs(n.config); err != nil {
		t.Fatal(err)
	}
	p.folder = &script.Folder{
		Argv: []string{"sh", "-c", hanging}, Work: dir, Output: dir,
		Env: []string{"PATH=" + os.Getenv("PATH"), "SLUICE_METRICS=" + p.dirs.metrics, "SLUICE_OUTPUT_DIR=" + dir},
	}
	n.prepared = p
	r, err := n.launch(protocol.RunRanksInput{Protocol: protocol.AgentProtocol, Generation: 1, Nodes: 1, MasterAddress: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	limit := time.After(time.Minute)
	for tick := time.NewTicker(lookEvery); !paced(r.metrics); {
		select {
		case <-tick.C:
		case <-limit:
			r.kill()
			<-r.done
			t.Fatalf("the rank makes no steps; it said:\n%s", r.said.tail)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "hang"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	select {
	case <-r.done:
	case <-limit:
		r.kill()
		<-r.done
		t.Fatalf("a rank without steps is not killed; it said:\n%s", r.said.tail)
	}
	if r.err != nil || !r.ended.Hung || r.ended.Stopped || syscall.Signal(r.ended.Signal) != syscall.SIGKILL {
		t.Errorf("ended %+v, %v, want a hang and SIGKILL", r.ended, r.err)
	}
	if want := fmt.Sprintf("waiting after step %d", r.ended.Step); !strings.Contains(r.ended.Tail, want) {
		t.Errorf("its last words are %q, want %q", r.ended.Tail, want)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "processes"))
	if err != nil {
		t.Fatal(err)
	}
	for field := range strings.FieldsSeq(string(raw)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is left: %v", pid, err)
		}
	}
}

// paced reports whether enough steps have been seen to tell a stall.
func paced(m *follower) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.spacing) >= stallAfter
}
