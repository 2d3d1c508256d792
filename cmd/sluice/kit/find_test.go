package kit

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/connect/state"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// TestFindStepOfTheFirstRun: the first run of a state folder is found by its ID, although its workflow records it a moment after the ID was
// printed.
func TestFindStepOfTheFirstRun(t *testing.T) {
	url := "mem://" + t.TempDir()
	t.Setenv(state.StoreVariable, url)
	s, err := store.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		cmd := &cobra.Command{}
		cmd.Flags().String("state", t.TempDir(), "")
		cmd.SetContext(t.Context())
		if _, _, _, err := FindStep(cmd, []string{"spam"}); fault.TypeOf(err) != fault.Invalid {
			t.Errorf("without runs: %v", err)
		}
		run := "spam-" + time.Now().UTC().Format("20060102-150405") + "-ab12"
		time.AfterFunc(2*time.Second, func() {
			if err := s.PutJSON(t.Context(), record.RunKey(run), record.RunRecord{Run: run, Pipeline: "spam"}, store.WriteOptions{}); err != nil {
				t.Error(err)
			}
		})
		if _, got, step, err := FindStep(cmd, []string{run}); err != nil || got.Run != run || step != "" {
			t.Errorf("got run %q, step %q, %v; want run %s", got.Run, step, err, run)
		}
	})
}
