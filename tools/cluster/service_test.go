package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
)

// newTestCluster is a cluster of one service, whose image is a program.
func newTestCluster(t *testing.T, set func(*types.ServiceConfig)) *cluster {
	t.Helper()
	var service types.ServiceConfig
	service.Name, service.Image = "app", "prom/prometheus"
	set(&service)
	state := t.TempDir()
	c, err := newCluster(&types.Project{Services: types.Services{"app": service}}, options{state: state, network: "127.22.0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.stop)
	bin := filepath.Join(state, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "prometheus"), []byte("#!/bin/sh\nexec \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return c
}

// A service that is killed is started again; its end by the cluster is the last.
func TestRestart(t *testing.T) {
	c := newTestCluster(t, func(s *types.ServiceConfig) {
		s.Command, s.Restart = types.ShellCommand{"sleep", "1000"}, types.RestartPolicyAlways
	})
	if err := c.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := c.services["app"]
	awaitPID := func(not int) (pid int) {
		for ctx := t.Context(); pid == 0 || pid == not; pid, _ = s.state() {
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
				t.Fatal("the service does not run")
			}
		}
		return pid
	}
	first := awaitPID(0)
	process, err := os.FindProcess(first)
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	awaitPID(first)
	c.stop()
	if pid, restarts := s.state(); pid != 0 || restarts != 1 {
		t.Errorf("after its end the service runs as %d, and was started again %d times, want once", pid, restarts)
	}
}

// What is wrong is said before anything is started, or soon after.
func TestStartFails(t *testing.T) {
	taken, err := net.Listen("tcp", "127.22.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	for name, test := range map[string]struct {
		set  func(*types.ServiceConfig)
		want string
	}{
		"port": {
			func(s *types.ServiceConfig) { s.Expose = types.StringOrNumberList{port} },
			"address already in use: another cluster runs",
		},
		"program": {
			func(s *types.ServiceConfig) { s.Entrypoint = types.ShellCommand{"no-such-program"} },
			`app: exec: "no-such-program": executable file not found in $PATH: ` + "`make cluster` builds or installs",
		},
		"end": {
			func(s *types.ServiceConfig) {
				s.Command, s.Restart = types.ShellCommand{"sh", "-c", "echo out of order; exit 1"}, types.RestartPolicyAlways
				s.HealthCheck = &types.HealthCheckConfig{Test: types.HealthCheckTest{"CMD", "false"}}
			},
			"app: has ended 5 times\nout of order",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTestCluster(t, test.set)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := c.start(ctx)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the start fails by %v, want %s", err, test.want)
			}
			c.stop() // of what was never started
		})
	}
}
