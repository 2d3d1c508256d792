package shell

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStarted(t *testing.T) {
	for _, tt := range []struct {
		words []string
		want  [][]string
	}{
		{[]string{"python3", "fit.py"}, [][]string{{"python3", "fit.py"}}},
		{[]string{"env", "-i", "A=1", "nohup", "torchrun", "fit.py"}, [][]string{{"torchrun", "fit.py"}}},
		{[]string{"env", "-u", "HOME", "torchrun"}, [][]string{nil}},
		{[]string{"bash", "-euo", "pipefail", "-c", "cd src && A=1 exec torchrun fit.py; echo done"}, [][]string{{"cd", "src"}, {"torchrun", "fit.py"}, {"echo", "done"}}},
		{[]string{"sh", "-c", "torchrun \"$SCRIPT\""}, nil},
		{[]string{"sh", "-c", "if ready; torchrun fit.py"}, nil},
		{[]string{"sh", "run.sh", "-c", "torchrun"}, [][]string{{"sh", "run.sh", "-c", "torchrun"}}},
		{nil, [][]string{nil}},
	} {
		if diff := cmp.Diff(tt.want, Started(tt.words)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.words, diff)
		}
	}
}
