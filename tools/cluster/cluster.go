package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
)

// startTimeout is how long a service may take until it is healthy or, if others wait for its end, has ended.
const startTimeout = 2 * time.Minute

// startAttempts is how often a service may end before it is healthy.
const startAttempts = 5

// cluster is the services of a project.
type cluster struct {
	state     string
	project   *types.Project
	addresses map[string]string

	order    []string
	services map[string]*service // does not change once the first is started

	publishing sync.Mutex
}

func newCluster(project *types.Project, o options) (*cluster, error) {
	c := &cluster{state: o.state, project: project, order: inOrder(project), addresses: map[string]string{}, services: map[string]*service{}}
	for i, name := range slices.Sorted(slices.Values(project.ServiceNames())) {
		c.addresses[name] = fmt.Sprintf("%s.%d", o.network, i+2)
	}
	if err := os.MkdirAll(filepath.Join(o.state, "logs"), 0o755); err != nil {
		return nil, err
	}
	return c, nil
}

// start starts the services in order, and returns when all are healthy or, of those that are to end, have ended. Nothing is started when
// the program of one is missing, or another program listens where it is to.
func (c *cluster) start(ctx context.Context) error {
	for _, name := range c.order {
		s, err := c.prepare(ctx, name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if s == nil {
			say(name, "not started: %s needs containers", c.project.Services[name].Image)
			continue
		}
		c.services[name] = s
	}
	for _, name := range c.order {
		s := c.services[name]
		if s == nil {
			continue
		}
		began := time.Now()
		s.start()
		if err := c.await(ctx, s); err != nil {
			return fmt.Errorf("%s: %w\n%s", name, err, tail(s.log))
		}
		what := "healthy"
		if !s.stays() {
			what = "done"
		}
		say(name, "%s after %.1f s", what, time.Since(began).Seconds())
	}
	return nil
}

// prepare makes a service a process that can be started. nil: it needs containers.
func (c *cluster) prepare(ctx context.Context, name string) (*service, error) {
	config := c.project.Services[name]
	if err := c.checkPorts(ctx, name); err != nil {
		return nil, err
	}
	r, err := newRewriter(config, c.addresses, c.state)
	if err != nil {
		return nil, err
	}
	p, err := newProgram(r, config)
	if p == nil || err != nil {
		return nil, err
	}
	return &service{name: name, config: config, program: p, rewriter: r, log: filepath.Join(c.state, "logs", name+".log"), changed: c.publish}, nil
}

// checkPorts returns an error when another program listens where a service is to: its health check would ask that one.
func (c *cluster) checkPorts(ctx context.Context, name string) error {
	for _, port := range listensAt(c.project.Services[name]) {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(c.addresses[name], port))
		if err != nil {
			return fmt.Errorf("%w: another cluster runs, or a program that listens at port %s of all addresses (ss -ltnp 'sport = %s' shows it): stop it first", err, port, port)
		}
		if err := l.Close(); err != nil {
			return err
		}
	}
	return nil
}

// await waits until a service is healthy or has ended.
func (c *cluster) await(ctx context.Context, s *service) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready within %v", startTimeout))
	defer cancel()
	if !s.stays() {
		select {
		case <-s.over:
			return s.err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for {
		err := s.check(ctx)
		if err == nil {
			return nil
		}
		if _, restarts := s.state(); restarts >= startAttempts {
			return fmt.Errorf("has ended %d times", startAttempts)
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// stop stops the services, those first that depend on others.
func (c *cluster) stop() {
	for _, name := range slices.Backward(c.order) {
		if s := c.services[name]; s != nil {
			s.stop()
		}
	}
}

// running is what cluster.json says of a service.
type running struct {
	Address  string `json:"address"`
	PID      int    `json:"pid"` // 0 when it does not run
	Restarts int    `json:"restarts"`
}

// publish writes cluster.json.
func (c *cluster) publish() {
	c.publishing.Lock()
	defer c.publishing.Unlock()
	all := map[string]running{}
	for name, s := range c.services {
		pid, restarts := s.state()
		all[name] = running{Address: c.addresses[name], PID: pid, Restarts: restarts}
	}
	raw, err := json.MarshalIndent(all, "", "  ")
	path := filepath.Join(c.state, "cluster.json")
	if err == nil {
		err = os.WriteFile(path+".new", raw, 0o644)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		say("cluster", "%v", err)
	}
}

// help says where people find what the Compose file publishes, and how they run pipelines there.
func (c *cluster) help() string {
	var b strings.Builder
	for _, name := range c.order {
		if c.services[name] == nil {
			continue
		}
		for _, port := range c.project.Services[name].Ports {
			fmt.Fprintf(&b, "%-16s %s:%d\n", name, c.addresses[name], port.Target)
		}
	}
	if worker := c.services["worker"]; worker != nil {
		b.WriteString("\nIn another terminal, to run pipelines on it:\n")
		for _, name := range slices.Sorted(maps.Keys(worker.config.Environment)) {
			if v := worker.config.Environment[name]; v != nil {
				fmt.Fprintf(&b, "  export %s='%s'\n", name, worker.rewriter.value(*v))
			}
		}
		b.WriteString("  bin/sluice run examples/spam/pipeline.yaml -e examples/spam/environment.yaml\n\n")
	}
	b.WriteString("up; Ctrl-C stops\n")
	return b.String()
}

// say tells people of a service's progress.
func say(name, format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%-16s %s\n", name, fmt.Sprintf(format, args...))
}

// tail is the end of a log.
func tail(path string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}
