package activities

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/script"
	"github.com/sluiceml/sluice/internal/testing/flowtest"
	"github.com/sluiceml/sluice/internal/testing/logtest"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// TestHowProgramsEnd: a program that was killed is tried again, also when only its shell is left to say so.
func TestHowProgramsEnd(t *testing.T) {
	for _, tt := range []struct {
		script, errType, says string
		log                   []string // of one that succeeds
	}{
		{script: "true"}, // what prints nothing has no log
		{script: "echo one; printf two >&2", log: []string{"1: one", "1: two"}},
		{"kill -KILL $$", fault.Infrastructure, "the script was killed (signal 9 (killed)), by a person or for lack of memory", nil},
		{"bash -c 'kill -KILL $$'; exit $?", fault.Infrastructure, "the script was killed (exit code 137), by a person or for lack of memory", nil},
		{"kill -TERM $$", fault.User, "the script ended with signal 15", nil},
		{"exit 136", fault.User, "the script ended with exit code 136", nil},
	} {
		t.Run(tt.script, func(t *testing.T) {
			f := &script.Folder{Argv: []string{"bash", "-euo", "pipefail", "-c", tt.script}, Work: t.TempDir(), Env: os.Environ()}
			s, err := store.Open(t.Context(), "mem://"+t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			flowtest.InActivity(t, func(ctx context.Context) {
				in := record.StepInput{Run: "r", Step: "s", Kind: spec.KindRun}
				log := openLog(ctx, s, in)
				defer log.Close()
				err = start(ctx, in, f, log.Program(), nil)
			})
			if got := fault.TypeOf(err); got != tt.errType || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("it ended as %q: %v; want %q: %s", got, err, tt.errType, tt.says)
			}
			var logged []string
			for _, l := range logtest.Lines(t, s, "r", "s", logtest.Everything) {
				logged = append(logged, fmt.Sprintf("%d: %s", l.Generation, l.Text))
			}
			if diff := cmp.Diff(tt.log, logged); tt.errType == "" && diff != "" {
				t.Errorf("the log (-want +got):\n%s", diff)
			}
		})
	}
}
