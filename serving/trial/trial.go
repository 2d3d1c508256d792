// Package trial runs native code in a child process, which is this program started again: code that crashes there has harmed nothing else.
package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"

	"github.com/sluiceml/sluice/internal/proc"
)

// maxOutput bounds what a child may write to each of its outputs.
const maxOutput = 1 << 20

// Crash is the end of a child that was not killed from outside.
type Crash struct{ Reason string }

// Error implements error.
func (c *Crash) Error() string { return c.Reason }

// ErrKilled says that SIGKILL ended the child, which is the kernel's way when memory runs out, so that nothing is known of what it ran.
var ErrKilled = errors.New("the process was killed; there may be too little memory")

// Run starts a program with one argument, gives it a request as JSON, and returns its output. The error is a Crash if the program ended
// with anything but exit code 0.
func Run(ctx context.Context, program, arg string, request any) ([]byte, error) {
	input, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	output, said := proc.NewHead(maxOutput), proc.NewHead(maxOutput)
	exit, err := proc.Run(ctx, proc.Command{Path: program, Args: []string{arg}, Stdin: bytes.NewReader(input), Stdout: output, Stderr: said})
	switch {
	case err != nil:
		return nil, err
	case exit.Signal == syscall.SIGKILL:
		return nil, ErrKilled
	case !exit.OK():
		return nil, &Crash{Reason: reasonOf(exit, string(said.Bytes()))}
	case len(output.Bytes()) >= maxOutput:
		return nil, fmt.Errorf("the process answered more than %d bytes", maxOutput)
	}
	return output.Bytes(), nil
}

// Yield makes this process the first one that the kernel ends when memory runs out.
func Yield() {
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0o600) // without /proc, the kernel chooses by size
}

// signalled is how the runtime of Go reports a signal in native code.
var signalled = regexp.MustCompile(`SIG[A-Z]+: [a-z-]+( [a-z]+)?`)

// logged begins a line of ONNX Runtime's log, such as a warning about a model: 2026-03-14 09:15:00.1 [W:onnxruntime:, graph.cc:4401 ...
var logged = regexp.MustCompile(`(?m)^.*\[[VIWE]:onnxruntime:.*\n?`)

// reasonOf is one line: the first that the program wrote apart from logs, which an assertion of C++ is, and the signal.
func reasonOf(exit proc.Exit, said string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(logged.ReplaceAllString(said, "")), "\n")
	signal := signalled.FindString(said)
	switch {
	case first == "":
		return exit.String()
	case signal == "" || strings.Contains(first, signal):
		return first
	case strings.HasPrefix(first, "fatal error:"): // Go's, of any signal
		return signal
	}
	return first + " (" + signal + ")"
}
