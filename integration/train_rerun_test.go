package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
)

// TestRerunGoesOn: a training that failed goes on from its last checkpoint when its run is done again, also where a rerun in between has added
// none; it starts anew where that is asked for, and where what it is given has changed.
func TestRerunGoesOn(t *testing.T) {
	t.Parallel()
	s := emptySandbox(t, t.TempDir())
	if err := os.Mkdir(s.project, 0o755); err != nil {
		t.Fatal(err)
	}
	made, broken := filepath.Join(s.dir, "made"), filepath.Join(s.dir, "broken")
	holdAt := func(step string) string { return filepath.Join(s.dir, "hold"+step) }
	for name, text := range map[string]string{
		"environment.yaml": "sluice: environment/v1\nname: lab\npools: {local: {local: {nodes: 1}}}\n",
		"pipeline.yaml": `sluice: pipeline/v1
name: resumes
steps:
  fit: {cache: false, train: {command: [sh, fit.sh], total_steps: 6, metrics: [loss], outputs: {steps_made: {type: int}}}}
`,
		// While the files are there it fails at step 4, before its checkpoint, or waits after that of a step.
		"fit.sh": `step=0
if [ -n "${SLUICE_RESUME_DIR-}" ]; then read step < "$SLUICE_RESUME_DIR/step"; fi
while [ $step -lt 6 ]; do
	while [ -e '` + holdAt("") + `'$step ]; do sleep 0.05; done
	step=$((step+1))
	printf ' %s' $step >> '` + made + `'
	echo "{\"step\": $step, \"of\": 6, \"loss\": 0.$((9-step))}" >> "$SLUICE_METRICS"
	if [ $step = 4 ] && [ -e '` + broken + `' ]; then exit 1; fi
	mkdir "$SLUICE_CHECKPOINT_DIR/part" && echo $step > "$SLUICE_CHECKPOINT_DIR/part/step"
	mv "$SLUICE_CHECKPOINT_DIR/part" "$SLUICE_CHECKPOINT_DIR/step-$step"
done
echo "{\"steps_made\": $step}" > "$SLUICE_OUTPUT_DIR/outputs.json"
`,
	} {
		write(t, filepath.Join(s.project, name), text)
	}
	// did is the steps that were made since it was last asked, and what the newest run says of its training.
	did := func() (string, spec.TrainOutput) {
		t.Helper()
		steps, err := os.ReadFile(made)
		if err != nil {
			t.Fatal(err)
		}
		write(t, made, "")
		var out spec.TrainOutput
		s.show().Steps["fit"].decode(t, &out)
		return strings.TrimSpace(string(steps)), out
	}
	write(t, broken, "")
	s.run().expect(3)
	if steps, _ := did(); steps != "1 2 3 4" {
		t.Fatalf("the first run made %q", steps)
	}
	first := s.show().Run

	s.start("checkpoint", "verify", first).expect(0).says(first+"/fit@3", "0 damaged")
	s.start("checkpoint", "export", first+"/fit", filepath.Join(s.dir, "exported")).expect(0).says("fit@3")
	if step, err := os.ReadFile(filepath.Join(s.dir, "exported", "step")); err != nil || string(step) != "3\n" {
		t.Errorf("the exported checkpoint is of step %q, %v", step, err)
	}
	s.start("plan", "pipeline.yaml", "-e", "environment.yaml", "--against", first).expect(0).says("resumes from step 3 of " + first)
	s.start("rerun", first).expect(3)
	if steps, out := did(); steps != "4" || out.Generations[0].FromStep != 3 {
		t.Errorf("the rerun made %q, of generations %+v, want step 4 after 3", steps, out.Generations)
	}
	second := s.show().Run

	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	s.start("rerun", second).expect(0)
	steps, out := did()
	if diff := cmp.Diff("4 5 6", steps); diff != "" || out.Generations[0].FromStep != 3 || out.Steps != 6 || out.StepsLost != 0 || out.Metrics["loss"] != 0.3 {
		t.Errorf("the rerun of the rerun made (-want +got):\n%s\n%+v", diff, out)
	}
	if points := s.curve(out.Curve); len(points) != 6 {
		t.Errorf("the curve has %d points, want those of the earlier runs, too: %+v", len(points), points)
	}

	s.start("rerun", first, "--from", "fit").expect(0)
	if steps, out := did(); steps != "1 2 3 4 5 6" || out.Generations[0].FromStep != 0 {
		t.Errorf("--from made %q, of generations %+v, want all", steps, out.Generations)
	}

	write(t, holdAt("2"), "")
	write(t, holdAt("4"), "")
	again := s.start("rerun", first, "--from", "fit")
	madeIs := func(steps string) func() bool {
		return func() bool { got, err := os.ReadFile(made); return err == nil && string(got) == steps }
	}
	again.await("step 2", madeIs(" 1 2"))
	canceled := s.show().Run
	again.await("the checkpoint of step 2", func() bool {
		_, err := os.Stat(filepath.Join(s.state, "store", "checkpoints", canceled, "fit", "g1", "step-2.json"))
		return err == nil
	})
	if err := os.Remove(holdAt("2")); err != nil {
		t.Fatal(err)
	}
	again.await("step 4", madeIs(" 1 2 3 4"))
	s.start("cancel", canceled).expect(0)
	again.wait()
	if steps, out := did(); steps != "1 2 3 4" || out.Generations[0].End != spec.EndCanceled {
		t.Errorf("canceled after %q, of generations %+v", steps, out.Generations)
	}
	if err := os.Remove(holdAt("4")); err != nil {
		t.Fatal(err)
	}
	s.start("rerun", canceled).expect(0)
	if steps, out := did(); steps != "5 6" || out.Generations[0].FromStep != 4 {
		t.Errorf("the rerun of what was canceled made %q, of generations %+v, want steps 5 and 6", steps, out.Generations)
	}

	s.start("checkpoint", "restore", canceled+"/fit@2", "--yes").expect(0).says("removed "+canceled+"/fit@4", "sluice rerun "+canceled)
	s.start("rerun", canceled).expect(0)
	if steps, out := did(); steps != "3 4 5 6" || out.Generations[0].FromStep != 2 {
		t.Errorf("the rerun of what was taken back to step 2 made %q, of generations %+v, want steps 3 to 6", steps, out.Generations)
	}

	s.edit("pipeline.yaml", "total_steps: 6", "total_steps: 6, deadline: {within: 4s, on_miss: stop}")
	write(t, holdAt("4"), "")
	s.run().expect(5)
	if steps, out := did(); steps != "1 2 3 4" || out.Generations[0].End != spec.EndDeadline {
		t.Errorf("made %q until the deadline, of generations %+v", steps, out.Generations)
	}
	if err := os.Remove(holdAt("4")); err != nil {
		t.Fatal(err)
	}
	s.start("rerun").expect(0)
	if steps, out := did(); steps != "5 6" || out.Generations[0].FromStep != 4 {
		t.Errorf("the rerun of what missed its deadline made %q, of generations %+v, want steps 5 and 6", steps, out.Generations)
	}

	s.edit("fit.sh", "step=0\n", "step=0 # changed\n")
	s.start("rerun", first, "--file", "pipeline.yaml", "-e", "environment.yaml").expect(0)
	if steps, out := did(); steps != "1 2 3 4 5 6" || out.Generations[0].FromStep != 0 {
		t.Errorf("another script made %q, of generations %+v, want all", steps, out.Generations)
	}
}
