package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
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

// cluster is the services of a project.
type cluster struct {
	state     string
	project   *types.Project
	addresses map[string]string

	mu       sync.Mutex
	order    []string
	services map[string]*service
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

// start starts the services in order, and returns when all are healthy or, of those that are to end, have ended.
func (c *cluster) start(ctx context.Context) error {
	for _, name := range c.order {
		began := time.Now()
		config := c.project.Services[name]
		r, err := newRewriter(config, c.addresses, c.state)
		if err != nil {
			return err
		}
		p, err := newProgram(r, config)
		if err != nil {
			return err
		}
		if p == nil {
			say(name, "not started: %s needs containers", config.Image)
			continue
		}
		s := &service{name: name, config: config, program: p, rewriter: r, log: filepath.Join(c.state, "logs", name+".log"), changed: c.publish, over: make(chan struct{})}
		c.mu.Lock()
		c.services[name] = s
		c.mu.Unlock()
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
		c.mu.Lock()
		s := c.services[name]
		c.mu.Unlock()
		if s != nil {
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
	c.mu.Lock()
	defer c.mu.Unlock()
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

// printAddresses says where people find what the Compose file publishes.
func (c *cluster) printAddresses(w io.Writer) {
	for _, name := range c.order {
		if c.services[name] == nil {
			continue
		}
		for _, port := range c.project.Services[name].Ports {
			fmt.Fprintf(w, "%-16s %s:%d\n", name, c.addresses[name], port.Target)
		}
	}
	if worker := c.services["worker"]; worker != nil {
		fmt.Fprintln(w, "\nIn another terminal, to run pipelines on it:")
		for _, name := range slices.Sorted(maps.Keys(worker.config.Environment)) {
			if v := worker.config.Environment[name]; v != nil {
				fmt.Fprintf(w, "  export %s='%s'\n", name, worker.rewriter.value(*v))
			}
		}
	}
	fmt.Fprintln(w, "up; Ctrl-C stops")
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
