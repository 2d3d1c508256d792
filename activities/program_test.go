package activities

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/script"
	"github.com/sluiceml/sluice/store/record"
)

// TestHowProgramsEnd: a program that was killed is tried again, also when only its shell is left to say so.
func TestHowProgramsEnd(t *testing.T) {
	for _, tt := range []struct{ script, errType, says string }{
		{"true", "", ""},
		{"kill -KILL $$", fault.Infrastructure, "the script was killed (signal 9 (killed)), by a person or for lack of memory"},
		{"bash -c 'kill -KILL $$'; exit $?", fault.Infrastructure, "the script was killed (exit code 137), by a person or for lack of memory"},
		{"kill -TERM $$", fault.User, "the script ended with signal 15"},
		{"exit 136", fault.User, "the script ended with exit code 136"},
	} {
		t.Run(tt.script, func(t *testing.T) {
			f := &script.Folder{Argv: []string{"bash", "-euo", "pipefail", "-c", tt.script}, Work: t.TempDir(), Env: os.Environ()}
			p := &Programs{State: t.TempDir()}
			err := p.start(t.Context(), record.StepInput{Run: "r", Step: "s", Kind: spec.KindRun}, f, io.Discard, nil)
			if got := fault.TypeOf(err); got != tt.errType || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("it ended as %q: %v; want %q: %s", got, err, tt.errType, tt.says)
			}
		})
	}
}
