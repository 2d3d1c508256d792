package worker

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/connect/schedule"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/store"
)

// TestRestoreGoesOn: of triggers that the server has lost, one that cannot be put back keeps neither the others nor the worker from starting,
// and the log names it.
func TestRestoreGoesOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := open(t, control.Options{StateDir: dir}, Options{})
	s := p.Session
	const pipeline, broken = "restore", "restore/b"
	ids := []string{pipeline + "/a", broken, pipeline + "/c"}
	applyTriggers(t, s, control.SubmitRequest{PipelineFile: project(t, saying(pipeline, `  a: {schedule: {cron: '@yearly'}}
  b: {schedule: {cron: '@yearly'}}
  c: {schedule: {cron: '@yearly'}}
`), nil)})
	for _, id := range ids {
		if err := s.Client.ScheduleClient().GetHandle(t.Context(), id).Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var applied schedule.Applied
	key := "applied/" + s.Folder() + "/" + broken + ".json"
	if err := s.Store.GetJSON(t.Context(), key, &applied); err != nil {
		t.Fatal(err)
	}
	applied.Spec.Schedule.Timezone = "Nowhere/Atlantis" // one that this machine does not know any more
	if err := s.Store.PutJSON(t.Context(), key, applied, store.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}

	var log bytes.Buffer
	p = open(t, control.Options{StateDir: dir, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))}, Options{})
	s = p.Session
	restored := s.Restored
	run := submit(t, s, control.SubmitRequest{PipelineFile: project(t, "name: other\nsteps: {only: {run: {command: ['true']}}}\n", nil)}).Run
	wait(t, s, run)
	listed := map[string]bool{}
	for _, id := range ids {
		_, err := s.Client.ScheduleClient().GetHandle(t.Context(), id).Describe(t.Context())
		listed[id] = err == nil
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{ids[0], ids[2]}, restored); diff != "" {
		t.Errorf("put back (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]bool{ids[0]: true, broken: false, ids[2]: true}, listed); diff != "" {
		t.Errorf("on the server (-want +got):\n%s", diff)
	}
	if !strings.Contains(log.String(), broken) {
		t.Errorf("the log does not name %s: %s", broken, log.String())
	}
}
