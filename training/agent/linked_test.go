package agent

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/training/checkpoint"
	"github.com/sluiceml/sluice/training/protocol"
)

// The checkpoint that is resumed from is where the script writes its own, under the name that the layout knows. It belongs to the script:
// what becomes of it there changes neither the other copy's place nor the store, and it is not committed again.
func TestResumedCheckpointIsWhereScriptsLook(t *testing.T) {
	for layout, tt := range map[string]struct {
		saved  string
		linked []string
	}{
		spec.LayoutFolder:      {"weights", []string{"step-30/weights"}},
		spec.LayoutSharded:     {"rank-1.pt", []string{"step-30/rank-1.pt"}},
		spec.LayoutHuggingFace: {"checkpoint-30/trainer_state.json", []string{"checkpoint-30/trainer_state.json"}},
		spec.LayoutLightning:   {"epoch=1-step=30.ckpt", []string{"epoch=1-step=30.ckpt", "last.ckpt"}},
	} {
		t.Run(layout, func(t *testing.T) {
			n, in := secretive(t, nil)
			saved := t.TempDir()
			place(t, saved, tt.saved)
			part := checkpoint.Part(n.store, keyOf(in, 1), 30)
			ref, err := part.PutTree(t.Context(), artifact.Checkpoint, saved, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			p := &prepared{
				key: keyOf(in, 2), index: 1,
				seal: checkpoint.Seal{Generation: 2, Resume: &checkpoint.Manifest{Generation: 1, Step: 30, Checkpoint: ref}},
			}
			p.spec.Checkpoint.Layout = layout
			if err := p.makeDirs(n.config); err != nil {
				t.Fatal(err)
			}
			if err := n.fetchResume(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			var linked []string
			err = filepath.WalkDir(p.dirs.checkpoints, func(path string, d os.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					path, err = filepath.Rel(p.dirs.checkpoints, path)
					linked = append(linked, path)
				}
				return err
			})
			slices.Sort(linked)
			if diff := cmp.Diff(tt.linked, linked); diff != "" || err != nil {
				t.Errorf("%v, the folder of checkpoints (-want +got):\n%s", err, diff)
			}
			r := &ranks{node: n, p: p, key: p.key}
			r.commits = newCommitter(n.store, r, 2)
			defer r.commits.arrivals.close()
			if err := r.refuseShards(); err != nil {
				t.Errorf("it counts as written by node 1: %v", err)
			}
			if w, err := r.commits.after(r.commits.committed(), true); err != nil || w != (written{}) {
				t.Errorf("%+v is to be committed again, %v", w, err)
			}
			if err := os.WriteFile(filepath.Join(p.dirs.checkpoints, tt.linked[0]), []byte("changed in place"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(p.dirs.checkpoints); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(p.resumeFrom); err != nil {
				t.Errorf("what the script deletes is gone from $SLUICE_RESUME_DIR: %v", err)
			}
			tree, err := part.Manifest(t.Context(), ref)
			if err != nil {
				t.Fatal(err)
			}
			blob, err := part.Blob(t.Context(), tree.Files[0].Digest)
			if err != nil {
				t.Fatal(err)
			}
			defer blob.Close()
			if text, err := io.ReadAll(blob); err != nil || string(text) != tt.saved {
				t.Errorf("the store has %q, %v", text, err)
			}
		})
	}
}

// A script that writes a checkpoint from before the one that it was given has not resumed, also if it reports no steps.
func TestCheckpointsShowThatAScriptDoesNotResume(t *testing.T) {
	n, in := secretive(t, nil)
	p := &prepared{key: keyOf(in, 2), seal: checkpoint.Seal{Generation: 2, Resume: &checkpoint.Manifest{Generation: 1, Step: 30}}, linked: []string{"step-30"}}
	if err := p.makeDirs(n.config); err != nil {
		t.Fatal(err)
	}
	r := &ranks{node: n, p: p, key: p.key, metrics: follow(p.dirs.metrics, p.dirs.before, 30)}
	r.commits = newCommitter(n.store, r, 1)
	defer r.commits.arrivals.close()
	for _, tt := range []struct{ write, want string }{
		{"step-30/weights", ""},
		{"step-40/weights", ""},
		{"step-10/weights", "the script began at step 10 and did not resume from the checkpoint of step 30"},
	} {
		place(t, p.dirs.checkpoints, tt.write)
		if got := (protocol.Resumption{From: 30, Began: r.began()}).Failed(); got != tt.want {
			t.Errorf("with %s: %q, want %q", tt.write, got, tt.want)
		}
	}
}
