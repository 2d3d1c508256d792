package integration

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/sluiceml/sluice/serving/onnx"
)

// newReleased is a sandbox whose target serves a release while Sluice is up.
func newReleased(t *testing.T) *sandbox {
	t.Helper()
	s := newRelease(t)
	s.edit("pipeline.yaml", "{weight: 100%}", "{weight: 100%, min_samples: 1}")
	run := s.run()
	run.await("an answer", func() bool { _, err := s.infer(); return err == nil })
	run.expect(0)
	return s
}

// TestUpServesLater: the port of a target is taken when Sluice comes up. That is said, and mended when the port is free again.
func TestUpServesLater(t *testing.T) {
	t.Parallel()
	s := newReleased(t)
	address := fmt.Sprintf("127.0.0.1:%d", s.port)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	up := s.start("up")
	up.awaits("target words: cannot listen on " + address)
	kill(t, up.cmd.Process.Pid, syscall.SIGINT)
	up.expect(1)

	up = s.start("up")
	up.awaits("cannot listen on " + address)
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	up.awaits("target words is served again at http://" + address)
	up.await("an answer", func() bool { _, err := s.infer(); return err == nil })
	kill(t, up.cmd.Process.Pid, syscall.SIGINT)
	up.expect(0)
}

// TestUpCannotLoad: what was released cannot be loaded where Sluice comes up. That is said there, and to whoever asks the model.
func TestUpCannotLoad(t *testing.T) {
	t.Parallel()
	s := newReleased(t)
	s.env = append(s.env, onnx.EnvironmentVariable+"="+t.TempDir())
	up := s.start("up")
	up.awaits("target words: load release 1: ")
	if _, err := s.infer(); err == nil || !strings.Contains(err.Error(), "status 503") || !strings.Contains(err.Error(), "words is not served: load release 1: ") {
		t.Errorf("the model answers: %v", err)
	}
	kill(t, up.cmd.Process.Pid, syscall.SIGINT)
	up.expect(1)
}
