package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
)

// restartPause is before a service that has ended is started again.
const restartPause = time.Second

// stopTimeout is how long a service may take to stop when the Compose file says nothing: what Docker gives it.
const stopTimeout = 10 * time.Second

// service is one service as a process, which is started again when it ends, if the Compose file says so.
type service struct {
	name     string
	config   types.ServiceConfig
	program  *program
	rewriter *rewriter
	log      string
	changed  func() // called when the process is another

	mu       sync.Mutex
	pid      int
	restarts int
	stopping bool

	over chan struct{} // nil until it is started; closed when it has ended for good, and then
	err  error         // says how
}

// stays reports whether the service runs until it is stopped. Others end by themselves.
func (s *service) stays() bool {
	return s.config.Restart != "" && s.config.Restart != types.RestartPolicyNo
}

// start runs the service's processes, one after the other, in the background. They are killed when this process ends, however it ends:
// the kernel sees to that by the thread that started them, so this one is kept.
func (s *service) start() {
	s.over = make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer close(s.over)
		for {
			s.err = s.run()
			if s.isStopping() || !s.stays() {
				return
			}
			say(s.name, "ended: %v; it is started again", s.err)
			time.Sleep(restartPause)
			if s.isStopping() {
				return
			}
			s.mu.Lock()
			s.restarts++
			s.mu.Unlock()
		}
	}()
}

// run runs the process to its end.
func (s *service) run() error {
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd, err := s.command(s.program.args)
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = log, log
	s.mu.Lock()
	if s.stopping {
		s.mu.Unlock()
		return nil
	}
	err = cmd.Start()
	if err == nil {
		s.pid = cmd.Process.Pid
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	s.changed()
	err = cmd.Wait()
	s.mu.Lock()
	s.pid = 0
	s.mu.Unlock()
	s.changed()
	return err
}

// command is a process in the service's environment.
func (s *service) command(args []string) (*exec.Cmd, error) {
	if err := os.MkdirAll(s.rewriter.root, 0o755); err != nil {
		return nil, err
	}
	cmd := exec.Command(args[0], args[1:]...) //nolint:noctx // stop ends it
	cmd.Env, cmd.Dir = s.program.env, s.rewriter.root
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: s.program.as}
	return cmd, nil
}

func (s *service) state() (pid, restarts int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pid, s.restarts
}

func (s *service) isStopping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopping
}

// check runs the health check of the Compose file once.
func (s *service) check(ctx context.Context) error {
	health := s.config.HealthCheck
	if health == nil {
		return nil
	}
	test := each(health.Test, s.rewriter.value)
	switch {
	case test[0] == "CMD":
		test = test[1:]
	case test[0] == "CMD-SHELL":
		test = []string{"sh", "-c", test[1]}
	default:
		return errors.New("the health check is neither CMD nor CMD-SHELL")
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, test[0], test[1:]...)
	cmd.Env, cmd.Dir = s.program.env, s.rewriter.root
	return cmd.Run()
}

// stop ends the service, if it was started.
func (s *service) stop() {
	if s.over == nil {
		return
	}
	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
	end := syscall.SIGTERM
	if s.config.StopSignal == "SIGINT" {
		end = syscall.SIGINT
	}
	s.signal(syscall.SIGCONT)
	s.signal(end)
	timeout := stopTimeout
	if s.config.StopGracePeriod != nil {
		timeout = time.Duration(*s.config.StopGracePeriod)
	}
	select {
	case <-s.over:
		return
	case <-time.After(timeout):
		say(s.name, "does not stop within %v: it is killed", timeout)
		s.signal(syscall.SIGKILL)
	}
	<-s.over
}

// signal signals the process, if there is one; SIGKILL goes to all of its group.
func (s *service) signal(signal syscall.Signal) {
	pid, _ := s.state()
	switch {
	case pid == 0: // which would mean this process's own group
	case signal == syscall.SIGKILL:
		syscall.Kill(-pid, signal) //nolint:errcheck // it may have ended meanwhile
	default:
		syscall.Kill(pid, signal) //nolint:errcheck // the same
	}
}
