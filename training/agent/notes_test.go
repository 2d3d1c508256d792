package agent

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/poll"
)

// TestTrainerNotes: a script with the Trainer of transformers writes no metrics; its steps and losses come from its checkpoints.
func TestTrainerNotes(t *testing.T) {
	g := startGang(t, 1, spec.Train{Checkpoint: spec.CheckpointSpec{Layout: spec.LayoutHuggingFace}}, `
save() {
	mkdir -p "$SLUICE_CHECKPOINT_DIR/checkpoint-$1" && echo weights > "$SLUICE_CHECKPOINT_DIR/checkpoint-$1/model.safetensors"
	echo "{\"global_step\": $1, \"max_steps\": 300, \"log_history\": [$2]}" > "$SLUICE_CHECKPOINT_DIR/checkpoint-$1/trainer_state.json"
}
first='{"step": 50, "loss": 0.5, "epoch": 0.1}, {"step": 100, "loss": 0.4}, {"step": 100, "eval_loss": 0.6}'
save 100 "$first"
while [ ! -e more ]; do sleep 0.05; done
save 200 "$first"', {"step": 150, "loss": NaN, "grad_norm": "none"}'
`)
	r := g.ranks[0]
	await(t, "the first checkpoint's commit", func() bool { return r.commits.committed() == 100 })
	await(t, "its steps", func() bool { return r.metrics.state().Step == 100 })
	if now := r.metrics.state(); now.Of != 300 || now.Loss != 0.4 {
		t.Errorf("after the first checkpoint: %+v, want a loss of 0.4 and 300 steps in all", now)
	}
	if err := os.WriteFile(filepath.Join(r.p.folder.Work, "more"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	end := g.end(t, 0)
	if end.CommittedStep != 200 || end.Code != 0 {
		t.Errorf("ended %+v, want step 200 committed", end)
	}
	lines, err := os.ReadFile(r.p.dirs.metrics)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"epoch":0.1,"loss":0.5,"step":50}
{"loss":0.4,"step":100}
{"eval_loss":0.6,"step":100}
{"of":300,"step":100}
{"loss":"NaN","step":150}
{"of":300,"step":200}
`
	if diff := cmp.Diff(want, string(lines)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

// TestOwnMetricsCount: of a script that writes metrics itself nothing else is read.
func TestOwnMetricsCount(t *testing.T) {
	g := startGang(t, 1, spec.Train{Checkpoint: spec.CheckpointSpec{Layout: spec.LayoutHuggingFace}}, `
echo '{"step": 120, "loss": 1}' >> "$SLUICE_METRICS"
sleep 0.5
mkdir -p "$SLUICE_CHECKPOINT_DIR/checkpoint-100"
echo '{"global_step": 100, "log_history": [{"step": 50, "loss": 0.5}]}' > "$SLUICE_CHECKPOINT_DIR/checkpoint-100/trainer_state.json"
`)
	if end := g.end(t, 0); end.CommittedStep != 100 || end.Step != 120 {
		t.Errorf("ended %+v, want step 100 of 120 committed", end)
	}
	if lines, err := os.ReadFile(g.ranks[0].p.dirs.metrics); err != nil || strings.Count(string(lines), "\n") != 1 {
		t.Errorf("metrics: %v\n%s\nwant the script's line alone", err, lines)
	}
}

func TestLightningNotes(t *testing.T) {
	g := startGang(t, 1, spec.Train{Checkpoint: spec.CheckpointSpec{Layout: spec.LayoutLightning}}, `
mkdir -p lightning_logs/version_0 lightning_logs/version_1
echo old > lightning_logs/version_0/metrics.csv
cat > lightning_logs/version_1/metrics.csv <<END
epoch,step,train_loss,val_loss
0,9,0.5,
0,9,,0.7
1,19,0.25,
1,29,0.125,
1,3
END
mkdir "$SLUICE_CHECKPOINT_DIR/epoch=1-step=20.ckpt" && echo part > "$SLUICE_CHECKPOINT_DIR/epoch=1-step=20.ckpt/part"
`)
	if end := g.end(t, 0); end.CommittedStep != 20 {
		t.Errorf("ended %+v, want step 20 committed", end)
	}
	lines, err := os.ReadFile(g.ranks[0].p.dirs.metrics)
	want := `{"epoch":0,"loss":0.5,"step":9,"train_loss":0.5}
{"epoch":0,"step":9,"val_loss":0.7}
{"epoch":1,"loss":0.25,"step":19,"train_loss":0.25}
{"step":20}
`
	if diff := cmp.Diff(want, string(lines)); err != nil || diff != "" {
		t.Errorf("%v, metrics (-want +got):\n%s", err, diff)
	}
}

// await waits until something holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range poll.Every(ctx, lookEvery/4) {
		if holds() {
			return
		}
	}
	t.Fatalf("waited a minute for %s", what)
}
