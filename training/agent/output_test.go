package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/testing/logtest"
	"github.com/sluiceml/sluice/internal/testing/rig"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/steplog"
	"github.com/sluiceml/sluice/training/protocol"
)

// storedLines reads the lines of each rank from the store, in the order they were printed.
func storedLines(t *testing.T, s *store.Store) map[int][]string {
	t.Helper()
	lines := map[int][]string{}
	for _, l := range logtest.Lines(t, s, "r", "s", logtest.Everything) {
		lines[l.Rank] = append(lines[l.Rank], l.Text)
	}
	return lines
}

// storedLog is what a node has printed.
func storedLog(t *testing.T, s *store.Store, node int) string {
	t.Helper()
	var log strings.Builder
	for _, l := range logtest.Lines(t, s, "r", "s", steplog.Selection{Generation: steplog.Any, Node: node, Rank: steplog.Any}) {
		log.WriteString(l.Text + "\n")
	}
	return log.String()
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
	delete(got, steplog.NoRank)
	want := map[int][]string{}
	for rank := range 3 {
		for i := 1; i <= 3; i++ {
			want[rank] = append(want[rank], fmt.Sprintf("%d says %d", rank, i))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("in the store (-want +got):\n%s", diff)
	}
}

// Ranks end as they would when the store cannot be reached.
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
