package integration

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
)

// TestShardedCheckpointOfAnotherRun: two nodes each write their part of a checkpoint, and the training of another run starts from it, with
// both parts on both nodes; three nodes are refused.
func TestShardedCheckpointOfAnotherRun(t *testing.T) {
	t.Parallel()
	s := emptySandbox(t, t.TempDir())
	if err := os.Mkdir(s.project, 0o755); err != nil {
		t.Fatal(err)
	}
	seen := filepath.Join(s.dir, "seen")
	for name, text := range map[string]string{
		"environment.yaml": "sluice: environment/v1\nname: lab\npools: {local: {local: {nodes: 3}}}\n",
		"pipeline.yaml": `sluice: pipeline/v1
name: shards
params: {nodes: {type: int, default: 2}, start: {type: string, default: ""}}
steps:
  pre: {cache: false, when: params.start == "", train: {command: [sh, fit.sh], nodes: 2, total_steps: 2, checkpoint: {layout: sharded}}}
  tune:
    cache: false
    when: params.start != ""
    train: {command: [sh, fit.sh], nodes: "${params.nodes}", total_steps: 4, checkpoint: {layout: sharded}, resume_from: "${params.start}"}
`,
		"fit.sh": `step=0
if [ -n "${SLUICE_RESUME_DIR-}" ]; then
	cat "$SLUICE_RESUME_DIR/shard-0" "$SLUICE_RESUME_DIR/shard-1" > '` + seen + `'-$RANK
	read step < "$SLUICE_RESUME_DIR/step"
fi
for step in $((step+1)) $((step+2)); do
	if [ $RANK = 0 ]; then echo "{\"step\": $step}" >> "$SLUICE_METRICS"; fi
	mkdir "$SLUICE_CHECKPOINT_DIR/new" && echo $step > "$SLUICE_CHECKPOINT_DIR/new/step"
	echo "rank $RANK at $step" > "$SLUICE_CHECKPOINT_DIR/new/shard-$RANK"
	mv "$SLUICE_CHECKPOINT_DIR/new" "$SLUICE_CHECKPOINT_DIR/step-$step"
done
`,
	} {
		write(t, filepath.Join(s.project, name), text)
	}
	s.run().expect(0)
	first := s.show().Run
	s.start("checkpoint", "verify", first).expect(0).says(first+"/pre@2", "0 damaged")
	s.start("checkpoint", "show", first+"/pre@2").expect(0).says("layout sharded, written by 2 ranks on 2 nodes, can be read on this number of nodes only", "shard-1")

	s.run("start=" + first + "/pre@2").expect(0)
	var out spec.TrainOutput
	s.show().Steps["tune"].decode(t, &out)
	if out.Generations[0].FromStep != 2 || out.Steps != 4 {
		t.Errorf("made %d steps, in generations %+v, want 4 after 2", out.Steps, out.Generations)
	}
	for _, rank := range []string{"0", "1"} {
		got, err := os.ReadFile(seen + "-" + rank)
		if diff := cmp.Diff("rank 0 at 2\nrank 1 at 2\n", string(got)); err != nil || diff != "" {
			t.Errorf("rank %s resumed from (-want +got), %v:\n%s", rank, err, diff)
		}
	}

	s.run("start="+first+"/pre@2", "nodes=3").expect(2).says("was written by 2 nodes")
	s.run("start=" + first + "/pre@9").expect(2).says("no such checkpoint")
}
