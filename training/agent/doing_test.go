package agent

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/stepargs"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training/protocol"
)

// TestDoing: heartbeats pass on how far sluice is with a step that it does itself, once it says so.
//
// promise: docs/compile.md#p-compile-pool-progress
// promise: docs/data.md#p-clean-pool-progress
func TestDoing(t *testing.T) {
	n := &node{}
	r := &ranks{node: n, p: &prepared{step: record.StepInput{Kind: spec.KindClean}, dirs: dirs{root: t.TempDir()}}, metrics: &follower{}}
	r.commits = &committer{ranks: r}
	args, err := stepargs.Write([]string{"sluice", stepargs.Clean}, "/bin/sluice", r.p.dirs.root, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if p := r.progress(); p.Doing != nil {
		t.Errorf("before it has said anything it does %+v", p.Doing)
	}
	for _, told := range []stepargs.Progress{{Text: "cleaning · 10 rows read", Share: 0.5}, {Text: "writing · 20 rows read", Share: 0.75}} {
		if err := stepargs.WriteProgress(args[2:], told); err != nil {
			t.Fatal(err)
		}
		want := protocol.Progress(told)
		if diff := cmp.Diff(&want, r.progress().Doing); diff != "" {
			t.Errorf("it does (-want +got):\n%s", diff)
		}
	}
}
