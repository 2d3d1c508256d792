package local

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/proc"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/gpu"
	"github.com/sluiceml/sluice/training/protocol"
)

// Gangs are those that the pools of this process have on the machine. The zero value is ready.
type Gangs struct {
	mu  sync.Mutex // held from when a pool looks for room until it has taken it
	all []*gang
}

func (g *Gangs) remove(one *gang) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all = slices.DeleteFunc(g.all, func(other *gang) bool { return other == one })
}

// gang is a gang that this process started.
type gang struct {
	record
	agents []*proc.Process
	// resources are what each of its nodes has, gpus those of each.
	resources spec.Resources
	gpus      [][]gpu.Unit
	once      sync.Once
	released  chan struct{}
	gone      chan struct{} // closed when the first node is gone
	tasks     sync.WaitGroup

	mu      sync.Mutex
	reasons map[int]string // why this pool itself took a node away
	lost    training.Loss
	ends    map[int]time.Time // when each node ended
}

func (g *gang) nodeDir(i int) string { return filepath.Join(g.Dir, fmt.Sprintf("node%d", i)) }

// startNode starts one agent and watches for its end.
func (g *gang) startNode(ctx context.Context, path string, c protocol.AgentConfig, logPath string) error {
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(logPath), 0o755); err != nil {
		return err
	}
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	tail := proc.NewTail(5)
	out := io.MultiWriter(log, tail)
	i := len(g.agents)
	g.Nodes[i].BeganAt = time.Now().UTC()
	// The agent outlives the activity that acquires it, and so its context.
	p, err := proc.Start(context.WithoutCancel(ctx), proc.Command{
		Path: path, Env: c.Environ(os.Environ()), Dir: c.Dir, Stdout: out, Stderr: out,
	})
	if err != nil {
		log.Close()
		return err
	}
	g.agents = append(g.agents, p)
	g.Processes = append(g.Processes, identify(p.PID()))
	g.tasks.Go(func() {
		defer log.Close()
		exit, err := p.Wait()
		g.lose(i, p.EndedAt(), exit, err, tail.String()) // what the agent left behind may have lived longer
	})
	return nil
}

// lose notes that a node is gone, and since when.
func (g *gang) lose(i int, at time.Time, exit proc.Exit, err error, tail string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.lost.Nodes) == 0 {
		g.lost.Reason = g.reason(i, exit, err, tail)
		close(g.gone)
	}
	g.lost.Nodes = append(g.lost.Nodes, i)
	g.ends[i] = at.UTC()
}

// paid is the gang with the times of those of its nodes that were started.
func (g *gang) paid() training.Gang {
	g.mu.Lock()
	defer g.mu.Unlock()
	paid := g.Gang
	paid.Nodes = slices.Clone(g.Nodes[:len(g.agents)])
	for i := range paid.Nodes {
		paid.Nodes[i].EndedAt = g.ends[i]
	}
	return paid
}

// reason is one line on why a node is gone.
func (g *gang) reason(i int, exit proc.Exit, err error, tail string) string {
	if why, ok := g.reasons[i]; ok {
		return why
	}
	said := fmt.Sprintf("node %d: its agent ended: %s", i, exit)
	if err != nil {
		said = fmt.Sprintf("node %d: its agent ended: %v", i, err)
	}
	if exit.Signal == 0 && tail != "" {
		said += ": " + tail[strings.LastIndexByte(tail, '\n')+1:]
	}
	return said
}

// take ends a node at once, with everything that runs on it.
func (g *gang) take(i int, why string) {
	g.mu.Lock()
	g.reasons[i] = fmt.Sprintf("node %d: %s", i, why)
	g.mu.Unlock()
	g.agents[i].Kill()
}

// lives reports whether any node does.
func (g *gang) lives() bool {
	for _, p := range g.agents {
		select {
		case <-p.Done():
		default:
			return true
		}
	}
	return false
}

// seen marks the gang as seen while any of its nodes lives.
func (g *gang) seen() {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for over := false; !over && g.lives(); {
		select {
		case <-g.released:
			over = true
		case <-tick.C:
		}
		if err := g.see(time.Now()); err != nil {
			return // without a record, nobody will ask
		}
	}
}

// watch waits for the first loss.
func (g *gang) watch(ctx context.Context) (training.Loss, error) {
	select {
	case <-g.gone:
	case <-ctx.Done():
		return training.Loss{}, ctx.Err()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return training.Loss{Nodes: slices.Clone(g.lost.Nodes), Reason: g.lost.Reason}, nil
}

// end kills every node and waits until all of it is gone.
func (g *gang) end() {
	g.once.Do(func() { close(g.released) })
	for _, p := range g.agents {
		p.Kill()
	}
	g.tasks.Wait()
}
