package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/testing/rig"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/training/protocol"
	"github.com/sluiceml/sluice/training/ranklog"
)

// storedLines reads the lines of each rank from the store, in the order they were printed.
func storedLines(t *testing.T, s *store.Store) map[int][]string {
	t.Helper()
	r := ranklog.NewReader(s, "r", "s", ranklog.Selection{Generation: ranklog.Any, Node: ranklog.Any, Rank: ranklog.Any})
	generations, err := r.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lines := map[int][]string{}
	for _, g := range generations {
		if err := r.Read(t.Context(), g, true, func(l ranklog.Line) error {
			lines[l.Rank] = append(lines[l.Rank], l.Text)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return lines
}

// What the ranks of several nodes print is in the store when they have ended, also what they print when they are stopped.
func TestOutputIsStored(t *testing.T) {
	s := openMem(t)
	g := startGangOn(t, s, 2, spec.Train{}, `
trap 'echo "$RANK is told to stop"; printf "no end"; exit 143' TERM
echo "I am $RANK of $WORLD_SIZE" >&2
exec 2> /dev/null # the shell says so when its sleep is terminated
touch "$SLUICE_CHECKPOINT_DIR/runs"
while true; do sleep 0.05; done
`)
	for i := range 2 {
		g.await(t, i, "checkpoints/runs")
		if err := g.nodes[i].Stop(t.Context(), protocol.StopInput{Generation: 1, Grace: 20 * time.Second}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2 {
		if end := g.end(t, i); !end.Stopped {
			t.Errorf("node %d ended with %+v", i, end)
		}
	}
	want := map[int][]string{}
	for i := range 2 {
		want[i] = []string{fmt.Sprintf("I am %d of 2", i), fmt.Sprintf("%d is told to stop", i), "no end"}
	}
	if diff := cmp.Diff(want, storedLines(t, s)); diff != "" {
		t.Errorf("in the store (-want +got):\n%s", diff)
	}
}

// Of several ranks on a node each one's lines are its own.
func TestOutputOfRanksIsToldApart(t *testing.T) {
	if _, err := exec.LookPath("mpirun"); err != nil {
		rig.Skip(t, err)
	}
	s := openMem(t)
	g := startGangOn(t, s, 1, spec.Train{Launcher: spec.LauncherMPI, Placement: spec.Placement{Resources: spec.Resources{CPU: 3}}},
		`for i in 1 2 3; do printf "$RANK "; sleep 0.01; echo "says $i"; done`)
	g.end(t, 0)
	got := storedLines(t, s)
	delete(got, ranklog.NoRank)
	want := map[int][]string{}
	for rank := range 3 {
		for i := 1; i <= 3; i++ {
			want[rank] = append(want[rank], fmt.Sprintf("%d says %d", rank, i))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("in the store (-want +got):\n%s", diff)
	}
	raw, err := os.ReadFile(g.ranks[0].p.dirs.log)
	if err != nil || len(raw) < len("0 says 1\n")*9 {
		t.Errorf("the node's own log is %q, %v", raw, err)
	}
}

// Ranks end as they would when the store cannot be reached, and their output is on the node.
func TestOutputWithoutAStore(t *testing.T) {
	s := openMem(t)
	broken := &noLogs{Driver: s.Driver()}
	g := startGangOn(t, store.New(broken, s.URL()), 1, spec.Train{}, `echo hello; exit 3`)
	if end := g.end(t, 0); end.Code != 3 {
		t.Errorf("it ended with %+v", end)
	}
	if broken.refused.Load() == 0 {
		t.Error("nothing was to be stored")
	}
	raw, err := os.ReadFile(filepath.Join(g.nodes[0].config.LogDir, "r/s/g1-rank0.log"))
	if string(raw) != "hello\n" || err != nil {
		t.Errorf("the node's log is %q, %v", raw, err)
	}
}

// noLogs refuses logs.
type noLogs struct {
	store.Driver
	refused atomic.Int64
}

func (n *noLogs) Write(ctx context.Context, key string, r io.Reader, opts store.WriteOptions) error {
	if len(key) > len(store.LogsPrefix) && key[:len(store.LogsPrefix)] == store.LogsPrefix {
		n.refused.Add(1)
		return errors.New("away")
	}
	return n.Driver.Write(ctx, key, r, opts)
}
