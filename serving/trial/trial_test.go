package trial

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestRun: what ended the child is one line, and a kill from outside says nothing of what it ran.
func TestRun(t *testing.T) {
	for name, c := range map[string]struct{ script, output, crash string }{
		"well":      {script: "cat; echo more >&2", output: `{"a":1}`},
		"code":      {script: "exit 3", crash: "exit code 3"},
		"message":   {script: "echo 'first' >&2; echo second >&2; exit 1", crash: "first"},
		"signal":    {script: "kill -SEGV $$", crash: "signal 11 (segmentation fault)"},
		"assertion": {script: "echo terminate called >&2; echo 'SIGABRT: abort' >&2; exit 2", crash: "terminate called (SIGABRT: abort)"},
		"logs":      {script: "echo '2026-03-14 09:15:00 [W:onnxruntime:, graph.cc:44 Clean] unused' >&2; echo 'Assertion failed' >&2; exit 2", crash: "Assertion failed"},
		"go":        {script: "echo 'fatal error: unexpected signal' >&2; echo '[signal SIGSEGV: segmentation violation code=0x1]' >&2; exit 2", crash: "SIGSEGV: segmentation violation"},
	} {
		t.Run(name, func(t *testing.T) {
			script := filepath.Join(t.TempDir(), "child")
			if err := os.WriteFile(script, []byte(c.script), 0o600); err != nil {
				t.Fatal(err)
			}
			output, err := Run(t.Context(), "/bin/sh", script, map[string]int{"a": 1})
			crash, crashed := errors.AsType[*Crash](err)
			if string(output) != c.output || crashed != (c.crash != "") || crashed && crash.Reason != c.crash {
				t.Errorf("%q, %v; want %q, %q", output, err, c.output, c.crash)
			}
		})
	}
	script := filepath.Join(t.TempDir(), "child")
	if err := os.WriteFile(script, []byte("kill -KILL $$"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), "/bin/sh", script, nil); !errors.Is(err, ErrKilled) {
		t.Errorf("%v, want %v", err, ErrKilled)
	}
}
