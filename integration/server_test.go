package integration

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/sluiceml/sluice/connect/embedded"
	"github.com/sluiceml/sluice/connect/state/holder"
	"github.com/sluiceml/sluice/control"
)

// serverVariable, in the environment of this test's own executable, makes it a Temporal server without a worker, on the state folder
// that it names.
const serverVariable = "SLUICE_TEST_SERVER"

// runServer serves until SIGTERM.
func runServer(dir string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	s, err := control.Open(ctx, control.Options{StateDir: dir})
	if err != nil {
		return err
	}
	<-ctx.Done()
	return s.Close()
}

// server is a Temporal server in a process of its own.
type server struct {
	s    *sandbox
	cmd  *exec.Cmd
	info holder.Info
}

// serve starts a server for the sandbox's commands, which join it as they join a cluster. It ends with the test.
func (s *sandbox) serve() *server {
	s.t.Helper()
	r := &server{s: s}
	r.start()
	s.t.Cleanup(func() {
		r.cmd.Process.Signal(syscall.SIGCONT)
		r.cmd.Process.Signal(syscall.SIGTERM)
		if err := r.cmd.Wait(); err != nil {
			s.t.Errorf("the server: %v", err)
		}
	})
	token, err := embedded.ReadToken(r.info.TokenFile)
	if err != nil {
		s.t.Fatal(err)
	}
	s.env = append(s.env, "TEMPORAL_ADDRESS="+r.info.TemporalAddress, "TEMPORAL_GRPC_META_AUTHORIZATION=Bearer "+string(token))
	return r
}

// start starts the server's process. Again, it has the address that it had.
func (r *server) start() {
	r.s.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		r.s.t.Fatal(err)
	}
	r.cmd = exec.Command(exe)
	r.cmd.Env = append(os.Environ(), serverVariable+"="+r.s.state)
	r.cmd.Stderr = os.Stderr
	if err := r.cmd.Start(); err != nil {
		r.s.t.Fatal(err)
	}
	r.s.await("the server", func() bool {
		info, found, err := holder.Find(r.s.state)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.s.t.Fatal(err)
		}
		r.info = info
		return found && info.TemporalAddress != ""
	})
}

// kill kills the server's process.
func (r *server) kill() {
	r.s.t.Helper()
	kill(r.s.t, r.cmd.Process.Pid, syscall.SIGKILL)
	r.cmd.Wait()
}

// work starts a worker with a state folder of its own.
func (s *sandbox) work(name string) *command {
	s.t.Helper()
	return s.start("worker", "--state", filepath.Join(s.dir, name))
}
