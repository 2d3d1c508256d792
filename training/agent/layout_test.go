package agent

import (
	"archive/zip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/training/checkpoint"
	"github.com/sluiceml/sluice/training/protocol"
)

// place writes files into a folder; a name with a slash at its end is a folder.
func place(t *testing.T, dir string, files ...string) {
	t.Helper()
	for _, name := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
		} else if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLayoutsFindCheckpoints(t *testing.T) {
	for _, tt := range []struct {
		layout string
		names  []string
		want   []written
	}{
		{
			spec.LayoutFolder,
			[]string{"step-3/", "step-12/", ".new-13/", "step-x/", "step-0/", "step--4/", "other/", "step-99", "checkpoint-5/"},
			[]written{{12, "step-12"}, {3, "step-3"}},
		},
		{
			spec.LayoutHuggingFace,
			[]string{"checkpoint-500/", "checkpoint-1000/", "tmp-checkpoint-1500/", "checkpoint-best/", "checkpoint-7", "runs/"},
			[]written{{1000, "checkpoint-1000"}, {500, "checkpoint-500"}},
		},
		{
			spec.LayoutLightning,
			[]string{
				"epoch=0-step=10.ckpt", "epoch=1-step=000020-v1.ckpt", "last.ckpt", "epoch=2-step=30.ckpt.tmp", "fit-step=40-loss=0.5.ckpt",
				"epoch=3.ckpt", "substep=50.ckpt", "step=60.ckpt/",
			},
			[]written{{60, "step=60.ckpt"}, {40, "fit-step=40-loss=0.5.ckpt"}, {20, "epoch=1-step=000020-v1.ckpt"}, {10, "epoch=0-step=10.ckpt"}},
		},
	} {
		dir := t.TempDir()
		place(t, dir, tt.names...)
		got, err := layoutOf(tt.layout).find(dir)
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(written{})); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", tt.layout, err, diff)
		}
	}
}

func TestWholeCheckpoints(t *testing.T) {
	dir := t.TempDir()
	trainer := layoutOf(spec.LayoutHuggingFace)
	place(t, dir, "checkpoint-5/model.safetensors")
	state := filepath.Join(dir, "checkpoint-5", "trainer_state.json")
	for text, want := range map[string]bool{"": false, `{"global_step": 5, "log_hist`: false, `{"global_step": 4}`: false, `{"global_step": 5}`: true} {
		if err := os.WriteFile(state, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := trainer.whole(filepath.Dir(state), 5); got != want {
			t.Errorf("with the state %q whole is %v", text, got)
		}
	}
	lightning := layoutOf(spec.LayoutLightning)
	path := filepath.Join(dir, "step=5.ckpt")
	if err := os.WriteFile(path, ckpt(t), 0o600); err != nil {
		t.Fatal(err)
	}
	if !lightning.whole(path, 5) {
		t.Error("a whole file is not taken for one")
	}
	if err := os.Truncate(path, int64(len(ckpt(t))-1)); err != nil {
		t.Fatal(err)
	}
	if lightning.whole(path, 5) {
		t.Error("a file without its end is taken for a whole one")
	}
}

// ckpt is a file as torch.save writes it.
func ckpt(t *testing.T) []byte {
	t.Helper()
	var b strings.Builder
	w := zip.NewWriter(&b)
	f, err := w.Create("archive/data.pkl")
	if err == nil {
		_, err = f.Write([]byte("weights"))
	}
	if err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	return []byte(b.String())
}

func TestSettling(t *testing.T) {
	const settleTime = 2 * time.Second // whatever that of the agent is
	dir, s, start := t.TempDir(), settling{}, time.Now()
	if s.settled(dir, start) || s.settled(dir, start.Add(time.Hour)) {
		t.Error("an empty folder has settled")
	}
	place(t, dir, "a")
	for _, look := range []struct {
		after time.Duration
		adds  string
		want  bool
	}{{0, "", false}, {settleTime - 1, "", false}, {settleTime, "deep/b", false}, {2*settleTime - 1, "", false}, {2 * settleTime, "", true}, {time.Hour, "", true}} {
		if look.adds != "" {
			place(t, dir, look.adds)
		}
		if got := s.settled(dir, start.Add(look.after)); got != look.want {
			t.Errorf("after %v settled is %v", look.after, got)
		}
	}
}

// trainer writes checkpoints as the Trainer does: in place, its state last. The second is never finished.
const trainer = `
write() { mkdir "$SLUICE_CHECKPOINT_DIR/checkpoint-$1"; echo w > "$SLUICE_CHECKPOINT_DIR/checkpoint-$1/model.safetensors"; }
echo '{"step":5,"loss":1}' >> "$SLUICE_METRICS"
write 5; echo '{"global_step": 5}' > "$SLUICE_CHECKPOINT_DIR/checkpoint-5/trainer_state.json"
write 10
trap 'exit 143' TERM
while true; do sleep 0.05; done
`

// TestHalfACheckpointIsNeverCommitted, and the one before it is, and is brought back as it was.
func TestHalfACheckpointIsNeverCommitted(t *testing.T) {
	g := startGang(t, 1, spec.Train{Checkpoint: spec.CheckpointSpec{Layout: spec.LayoutHuggingFace}}, trainer)
	r := g.ranks[0]
	await(t, "the commit of step 5", func() bool { return r.commits.committed() == 5 })
	if err := g.nodes[0].Stop(t.Context(), protocol.StopInput{Generation: 1, Grace: 10 * time.Second}); err != nil {
		t.Fatal(err)
	}
	if end := g.end(t, 0); end.Code != exitStopped || end.CommittedStep != 5 || end.CommitError != "" {
		t.Errorf("ended %+v, want step 5 committed", end)
	}

	next := r.key
	for _, generation := range []int{1, 2} {
		next.Generation = generation
		if _, err := checkpoint.MakeSeal(t.Context(), g.nodes[0].store, next, checkpoint.Origin{}, nil); err != nil {
			t.Fatal(err)
		}
	}
	seal, err := checkpoint.MakeSeal(t.Context(), g.nodes[0].store, next, checkpoint.Origin{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &prepared{key: next, spec: r.p.spec, seal: seal}
	if err := p.makeDirs(g.nodes[0].config); err != nil {
		t.Fatal(err)
	}
	if err := g.nodes[0].fetchResume(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(p.resumeFrom, "model.safetensors"))
	if err != nil || string(raw) != "w\n" || filepath.Base(p.resumeFrom) != "checkpoint-5" {
		t.Errorf("it resumes from %s, with %q, %v", p.resumeFrom, raw, err)
	}
	if lines, err := os.ReadFile(p.dirs.metrics); err != nil || string(lines) != fmt.Sprintln(`{"step":5,"loss":1}`) {
		t.Errorf("metrics %q, %v", lines, err)
	}
}
