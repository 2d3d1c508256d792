package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
)

// TestTrainOnFullDisk: when the store's disk is full, a training goes on and says why its checkpoints are not committed; when there is room
// again the next one is. A node that is lost meanwhile costs the steps since the newest that is whole, and what waits for space says so.
func TestTrainOnFullDisk(t *testing.T) {
	t.Parallel()
	s := emptySandbox(t, t.TempDir())
	disk := filepath.Join(s.dir, "disk")
	mountDisk(t, disk, "size=24m", 0)
	s.storeURL = "file://" + disk
	if err := os.Mkdir(s.project, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"environment.yaml": "sluice: environment/v1\nname: lab\nstore: {url: \"" + s.storeURL + "\"}\npools: {local: {local: {nodes: 2}}}\n",
		"pipeline.yaml": `sluice: pipeline/v1
name: full
steps: {struck: {cache: false, train: {command: [sh, fit.sh], total_steps: 50}}}
`,
		"fit.sh": `step=0
if [ -n "${SLUICE_RESUME_DIR-}" ]; then
	read step < "$SLUICE_RESUME_DIR/step"
	[ $(cat "$SLUICE_RESUME_DIR"/part-* | wc -c) = $((3 << 20)) ] || exit 1
fi
cd "$SLUICE_CHECKPOINT_DIR"
while [ $step -lt 50 ]; do
	step=$((step+1))
	while [ -e '` + s.dir + `'/struck.hold-$step ]; do sleep 0.05; done
	echo $step >> '` + s.dir + `'/made
	echo "{\"step\": $step}" >> "$SLUICE_METRICS"
	if [ $((step % 10)) = 0 ]; then
		mkdir new
		for part in 1 2 3; do head -c 1M /dev/urandom > new/part-$part; done
		echo $step > new/step
		mv new step-$step
	fi
done
`,
	} {
		write(t, filepath.Join(s.project, name), text)
	}
	for step := 11; step < 50; step += 10 {
		s.hold(step)
	}
	run := s.run()
	gang := training.Key{Run: run.runID(), Step: "struck", Generation: 1}
	committed := func(step int64) func() bool {
		return func() bool {
			steps, err := checkpoint.Steps(t.Context(), s.store(), gang)
			if err != nil {
				t.Fatal(err)
			}
			return slices.Max(append(steps, 0)) == step
		}
	}
	// fails waits for a commit to fail, and for `show` to say so.
	fails := func(step string) {
		why := "commit step-" + step + ": there is no space left in " + s.storeURL
		log := filepath.Join(s.state, "logs", gang.Run, gang.Step, "g1-agent0.log")
		run.await(why+" in the agent's log", func() bool {
			raw, err := os.ReadFile(log)
			return err == nil && strings.Contains(string(raw), why)
		})
		run.await(why+" in what is shown", func() bool { return s.shows(gang, "checkpoints fail: "+why) })
	}
	run.await("the commit of step 10", committed(10))

	free := fillDisk(t, disk, 3<<19) // a part of a checkpoint finds room
	s.release(11)
	fails("20")
	s.release(21)
	run.await("the training to go on", func() bool { return s.ledger("made")["30"] > 0 })
	if !committed(10)() {
		t.Error("there is another commit than that of step 10")
	}
	free()
	run.await("the commit of step 30", committed(30))
	run.await("the end of the warning", func() bool { return !s.shows(gang, "checkpoints fail") })

	free = fillDisk(t, disk, 0)
	s.release(31)
	fails("40")
	kill(t, s.agent(gang, 0), syscall.SIGKILL)
	run.await("the end of the generation to want space", func() bool {
		return s.shows(gang, "releasing nodes, retrying: ", "no space left")
	})
	free()
	s.release(41)
	run.expect(0)
	var out spec.TrainOutput
	s.show(gang.Run).Steps["struck"].decode(t, &out)
	if g := out.Generations; len(g) != 2 || g[0].End != spec.EndNodeLost || g[0].CommittedStep != 30 || g[1].FromStep != 30 || g[1].End != spec.EndFinished {
		t.Errorf("the generations were %+v, want one that lost its node and one that went on from step 30", g)
	}
	s.start("checkpoint", "verify", gang.Run).expect(0).says("0 damaged")
}

// shows reports whether `sluice show` says all of parts of a step.
func (s *sandbox) shows(gang training.Key, parts ...string) bool {
	s.t.Helper()
	said := s.start("show", gang.Run, gang.Step).expect(0).stdout.String()
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(said, part) })
}

// fillDisk fills a disk but for some bytes. What it returns makes room again.
func fillDisk(t *testing.T, disk string, but int64) (free func()) {
	t.Helper()
	path := filepath.Join(disk, "filler")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var stat syscall.Statfs_t
	if err := syscall.Statfs(disk, &stat); err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(make([]byte, max(0, int64(stat.Bavail)*stat.Bsize-but)))
	if err != nil && !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(fmt.Errorf("make room: %w", err))
		}
	}
}
