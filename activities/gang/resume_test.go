package gang

import (
	"strings"
	"testing"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
)

// What a gang could not resume from is refused by the plan, before any node is acquired.
func TestResumeFromIsChecked(t *testing.T) {
	s, err := store.Open(t.Context(), "mem://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	commit := func(run, layout string, nodes int, reshard bool) {
		k := training.Key{Run: run, Step: "fit", Generation: 1}
		part := checkpoint.Part(s, k, 7)
		m := checkpoint.Manifest{Generation: 1, Step: 7, Layout: layout, Nodes: nodes, Reshard: reshard}
		if m.Metrics, _, err = part.PutBlob(t.Context(), strings.NewReader("")); err != nil {
			t.Fatal(err)
		}
		if m.Checkpoint, err = part.PutTree(t.Context(), artifact.Checkpoint, t.TempDir(), nil, nil); err != nil {
			t.Fatal(err)
		}
		if err := checkpoint.Commit(t.Context(), s, k, m); err != nil {
			t.Fatal(err)
		}
	}
	commit("folder", spec.LayoutFolder, 2, false)
	commit("hf", spec.LayoutHuggingFace, 2, false)
	commit("sharded", spec.LayoutSharded, 2, false)
	commit("resharded", spec.LayoutSharded, 2, true)
	for name, tt := range map[string]struct {
		from     string
		sp       spec.CheckpointSpec
		min, max int
		want     string // part of the error; empty: none
	}{
		"nothing":                 {"", spec.CheckpointSpec{}, 1, 4, ""},
		"a folder":                {"folder/fit", spec.CheckpointSpec{}, 3, 3, ""},
		"a folder as one part":    {"folder/fit", spec.CheckpointSpec{Layout: spec.LayoutSharded}, 3, 3, ""},
		"missing":                 {"folder/fit@8", spec.CheckpointSpec{}, 1, 1, "no such checkpoint"},
		"another format":          {"hf/fit", spec.CheckpointSpec{}, 2, 2, "`layout: huggingface`"},
		"the same size":           {"sharded/fit", spec.CheckpointSpec{Layout: spec.LayoutSharded}, 2, 2, ""},
		"another size":            {"sharded/fit", spec.CheckpointSpec{Layout: spec.LayoutSharded}, 3, 3, "was written by 2 nodes"},
		"another size, folder":    {"sharded/fit", spec.CheckpointSpec{}, 1, 1, "was written by 2 nodes"},
		"the program can reshard": {"sharded/fit", spec.CheckpointSpec{Layout: spec.LayoutSharded, Reshard: true}, 1, 4, ""},
		"the writer said so":      {"resharded/fit", spec.CheckpointSpec{Layout: spec.LayoutSharded}, 3, 3, ""},
		"a range":                 {"", spec.CheckpointSpec{Layout: spec.LayoutSharded}, 2, 3, "2 to 3 nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			trainings := &Trainings{Store: s}
			m, err := trainings.resumeFrom(t.Context(), spec.Train{ResumeFrom: tt.from, Checkpoint: tt.sp}, contract.TrainPlan{MinNodes: tt.min, MaxNodes: tt.max})
			switch {
			case tt.want == "" && (err != nil || (m != nil) != (tt.from != "")):
				t.Errorf("%+v, %v", m, err)
			case tt.want != "" && (fault.TypeOf(err) != fault.Invalid || !strings.Contains(fault.Message(err), tt.want)):
				t.Errorf("%v, want an error about %q", err, tt.want)
			}
		})
	}
}
