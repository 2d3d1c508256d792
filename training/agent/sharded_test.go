package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
	"github.com/sluiceml/sluice/training/protocol"
)

var sharded = spec.Train{Checkpoint: spec.CheckpointSpec{Layout: spec.LayoutSharded}}

// shardSaver is the beginning of a program whose ranks each save a part.
const shardSaver = `
save() {
  mkdir "$SLUICE_CHECKPOINT_DIR/part-$1"; echo "$1 of $RANK" > "$SLUICE_CHECKPOINT_DIR/part-$1/shard-$RANK"; echo $1 > "$SLUICE_CHECKPOINT_DIR/part-$1/meta"
  mv "$SLUICE_CHECKPOINT_DIR/part-$1" "$SLUICE_CHECKPOINT_DIR/step-$1"
}
`

// resumed is what generation 2 would resume from: the step, and the files that each node would get.
func resumed(t *testing.T, s *store.Store) (int64, map[string]string) {
	t.Helper()
	k := training.Key{Run: "r", Step: "s", Generation: 2}
	m, err := checkpoint.Newest(t.Context(), s, k, nil)
	if err != nil {
		t.Fatal(err)
	}
	if m == nil {
		return 0, nil
	}
	dir := filepath.Join(t.TempDir(), "resume")
	if err := (checkpoint.Seal{Generation: 2, Resume: m}).Files(s, k).Fetch(t.Context(), m.Checkpoint, dir); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = strings.TrimSpace(string(raw))
	}
	return m.Step, files
}

func sealFirst(t *testing.T, s *store.Store) {
	t.Helper()
	if _, err := checkpoint.MakeSeal(t.Context(), s, training.Key{Run: "r", Step: "s", Generation: 1}, checkpoint.Origin{}, nil); err != nil {
		t.Fatal(err)
	}
}

func TestShardsOfAllNodesAreOneCheckpoint(t *testing.T) {
	s := openMem(t)
	sealFirst(t, s)
	g := startGangOn(t, s, 3, sharded, shardSaver+`save 5; save 7; exit 0`)
	ends := map[int]int64{}
	for i := range 3 {
		ends[i] = g.end(t, i).CommittedStep
	}
	if ends[0] != 7 {
		t.Errorf("node 0 has committed step %d, want 7", ends[0])
	}
	step, files := resumed(t, s)
	want := map[string]string{"meta": "7", "shard-0": "7 of 0", "shard-1": "7 of 1", "shard-2": "7 of 2"}
	if diff := cmp.Diff(want, files); step != 7 || diff != "" {
		t.Errorf("resumes from step %d (-want +got):\n%s", step, diff)
	}
	all, err := checkpoint.List(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	last := all[len(all)-1]
	if last.Name() != "r/s@7" || last.Layout != spec.LayoutSharded || last.Nodes != 3 || last.Ranks != 3 {
		t.Errorf("listed as %+v, want layout and world size", last)
	}
	if err := last.Verify(t.Context(), s); err != nil {
		t.Error(err)
	}
}

// All nodes commit the checkpoint of the step that they agree on at a notice, although uploads of an earlier one are under way.
func TestNoticeCommitsTheNewestShards(t *testing.T) {
	s := openMem(t)
	sealFirst(t, s)
	stuck := &stuckStore{Driver: s.Driver(), part: "/step-5/"}
	g := startGangOn(t, store.New(stuck, s.URL()), 2, sharded, shardSaver+`
		trap 'save 9; exit 143' TERM; save 5; while true; do sleep 0.05; done`)
	await(t, "the uploads of step 5", func() bool { return stuck.waiting.Load() >= 2 })
	for i := range g.nodes {
		go g.nodes[i].Stop(t.Context(), protocol.StopInput{Generation: 1, Grace: time.Minute})
	}
	for i := range g.nodes {
		if end := g.end(t, i); end.Code != exitStopped || i == 0 && end.CommittedStep != 9 {
			t.Errorf("node %d ended %+v, want step 9 committed", i, end)
		}
	}
	if step, files := resumed(t, s); step != 9 || len(files) != 3 {
		t.Errorf("resumes from step %d with %v, want 9 with both parts", step, files)
	}
}

// When a node is killed, what the others have beyond its last part is not whole, and nobody waits for it.
func TestPartsWithoutALostNodesAreNotResumedFrom(t *testing.T) {
	s := openMem(t)
	sealFirst(t, s)
	g := startGangOn(t, s, 2, sharded, shardSaver+`
		save 5; until [ -e "$SLUICE_CHECKPOINT_DIR/../go" ]; do sleep 0.05; done; save 9; while true; do sleep 0.05; done`)
	await(t, "the commit of step 5", func() bool { step, _ := resumed(t, s); return step == 5 })
	g.ranks[1].kill() // its agent goes on in this process, but finds nothing newer
	g.end1(t)
	if err := os.WriteFile(filepath.Join(g.ranks[0].p.dirs.root, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	g.await(t, 0, "checkpoints/step-9")
	began := time.Now()
	if err := g.nodes[0].Stop(t.Context(), protocol.StopInput{Generation: 1, Over: []int{1}}); err != nil {
		t.Fatal(err)
	}
	if end := g.end(t, 0); end.CommittedStep != 5 {
		t.Errorf("node 0 has committed step %d, want 5", end.CommittedStep)
	}
	if took := time.Since(began); took > lastWait/2 {
		t.Errorf("node 0 waited %s for a node that is gone", took)
	}
	if step, _ := resumed(t, s); step != 5 {
		t.Errorf("resumes from step %d, want 5", step)
	}
}

// end1 waits for the end of node 1's ranks.
func (g gang) end1(t *testing.T) {
	t.Helper()
	select {
	case <-g.ranks[1].done:
	case <-time.After(time.Minute):
		t.Fatal("node 1 runs on")
	}
}

func TestShardsWithTheSameNameAreRefused(t *testing.T) {
	s := openMem(t)
	sealFirst(t, s)
	g := startGangOn(t, s, 2, sharded, `
		mkdir "$SLUICE_CHECKPOINT_DIR/new"; echo "$RANK" > "$SLUICE_CHECKPOINT_DIR/new/model.pt"; mv "$SLUICE_CHECKPOINT_DIR/new" "$SLUICE_CHECKPOINT_DIR/step-5"
		while true; do sleep 0.05; done`)
	select {
	case <-g.ranks[0].done:
	case <-time.After(time.Minute):
		t.Fatal("node 0 runs on")
	}
	if err := g.ranks[0].err; fault.TypeOf(err) != fault.User || !strings.Contains(fault.Message(err), "both wrote model.pt") {
		t.Errorf("%v, want an error that names the file", err)
	}
	if step, _ := resumed(t, s); step != 0 {
		t.Errorf("resumes from step %d, want none", step)
	}
}

func TestNodeWithoutAPartIsRefused(t *testing.T) {
	s := openMem(t)
	g := startGangOn(t, s, 2, sharded, shardSaver+`[ $RANK = 1 ] || save 5; while true; do sleep 0.05; done`)
	c := &committer{store: s, ranks: g.ranks[1], layout: g.ranks[1].commits.layout, nodes: 2, shards: &sharding{}}
	c.checkEmpty(5)
	if err := c.refusal(); err != nil {
		t.Errorf("refused at once: %v", err)
	}
	c.shards.emptySince = time.Now().Add(-emptyLimit)
	place(t, g.ranks[1].p.dirs.checkpoints, "new-5/shard-1")
	c.checkEmpty(5)
	if err := c.refusal(); err != nil {
		t.Errorf("refused while it writes: %v", err)
	}
	if err := os.RemoveAll(filepath.Join(g.ranks[1].p.dirs.checkpoints, "new-5")); err != nil {
		t.Fatal(err)
	}
	c.shards.emptySince = time.Now().Add(-emptyLimit)
	c.checkEmpty(5)
	if err := c.refusal(); fault.TypeOf(err) != fault.User || !strings.Contains(fault.Message(err), "layout: folder") {
		t.Errorf("%v, want the user's error", err)
	}
}

// On one node nothing is joined.
func TestShardedOnOneNodeIsAFolder(t *testing.T) {
	s := openMem(t)
	sealFirst(t, s)
	g := startGangOn(t, s, 1, sharded, shardSaver+`save 5; exit 0`)
	if end := g.end(t, 0); end.CommittedStep != 5 {
		t.Errorf("ended %+v, want step 5 committed", end)
	}
	if step, files := resumed(t, s); step != 5 || len(files) != 2 {
		t.Errorf("resumes from step %d with %v", step, files)
	}
	if nodes, err := checkpoint.Shards(t.Context(), s, training.Key{Run: "r", Step: "s", Generation: 1}, 5); err != nil || len(nodes) > 0 {
		t.Errorf("it has parts of %v, %v", nodes, err)
	}
}
