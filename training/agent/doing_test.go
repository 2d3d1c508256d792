package agent

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/secret"
	"github.com/sluiceml/sluice/internal/stepargs"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training/protocol"
)

// TestDoing: heartbeats pass on how far sluice is with a step that it does itself, once it says so, but for secrets: programs of the step could
// write the file.
func TestDoing(t *testing.T) {
	n := &node{}
	r := &ranks{node: n, p: &prepared{step: record.StepInput{Kind: spec.KindClean}, dirs: dirs{root: t.TempDir()}, mask: secret.NewMask("hunter-2")}, metrics: &follower{}}
	r.commits = &committer{ranks: r}
	args, err := stepargs.Write([]string{"sluice", stepargs.Clean}, "/bin/sluice", r.p.dirs.root, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if p := r.progress(); p.Doing != nil {
		t.Errorf("before it has said anything it does %+v", p.Doing)
	}
	for told, want := range map[string]string{"cleaning · 10 rows read": "cleaning · 10 rows read", "hunter-2 · 20 rows read": "*** · 20 rows read"} {
		if err := stepargs.WriteProgress(args[2:], stepargs.Progress{Text: told, Share: 0.5}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&protocol.Progress{Text: want, Share: 0.5}, r.progress().Doing); diff != "" {
			t.Errorf("it does (-want +got):\n%s", diff)
		}
	}
}
