package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
)

// A part of a checkpoint on the second node ends the training when it appears, and not hours later when its ranks end, which these do
// not by themselves.
func TestPartsOfCheckpointsAreRefusedAtOnce(t *testing.T) {
	for layout, file := range map[string]string{
		spec.LayoutFolder:      "step-5/shard-1.pt",
		spec.LayoutHuggingFace: "checkpoint-5/pytorch_model_fsdp_0/__1_0.distcp",
		spec.LayoutLightning:   "step=5.ckpt/__1_0.distcp",
	} {
		t.Run(layout, func(t *testing.T) {
			spec := spec.Train{Checkpoint: spec.CheckpointSpec{Layout: layout}}
			g := startGang(t, 2, spec, `f="$SLUICE_CHECKPOINT_DIR/`+file+`"; mkdir -p "${f%/*}"; echo w > "$f"; while true; do sleep 0.05; done`)
			select {
			case <-g.ranks[1].done:
			case <-time.After(time.Minute):
				t.Fatal("node 1 runs on")
			}
			err := g.ranks[1].err
			if fault.TypeOf(err) != fault.User || !strings.Contains(fault.Message(err), "node 1 wrote a part of checkpoint") {
				t.Errorf("%v, want the user's error", err)
			}
			select {
			case <-g.ranks[0].done:
				t.Errorf("node 0 has ended: %+v, %v", g.ranks[0].ended, g.ranks[0].err)
			default:
			}
		})
	}
}

// What the frameworks leave on every node, and a checkpoint does not need, is no part of one.
func TestWhatEveryNodeWritesIsNoPart(t *testing.T) {
	for layout, file := range map[string]string{
		spec.LayoutFolder:      ".new-5/weights",
		spec.LayoutHuggingFace: "checkpoint-5/rng_state_1.pth",
		spec.LayoutLightning:   "step=5.ckpt/", // torn down before anything was in it
	} {
		t.Run(layout, func(t *testing.T) {
			g := startGang(t, 2, spec.Train{Checkpoint: spec.CheckpointSpec{Layout: layout}}, "exit 0")
			place(t, g.ranks[1].p.dirs.checkpoints, file)
			g.end(t, 1)
		})
	}
}
