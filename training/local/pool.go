// Package local is a pool whose nodes are processes on this machine. Each node is an agent with a folder of its own, started under
// internal/proc as a child of the process that acquired it, so that no agent or rank outlives that process. It can play the spot
// market: see Interruptions in the environment document.
//
// The state of a gang is kept in <Dir>/<run>-<step>-g<generation>/gang.json, so that another process, or this one after a restart,
// can tell which of its nodes still live, and by the file's time how long the others did.
package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/gpu"
	"github.com/sluiceml/sluice/training/protocol"
)

// host is where all nodes of the pool are.
const host = "127.0.0.1"

// Options configure a pool.
type Options struct {
	// Dir keeps the pool's state and its nodes' folders.
	Dir string
	// Nodes is how many nodes there are.
	Nodes int
	// Interruptions, when not nil, play the spot market. Nodes on on-demand are not interrupted.
	Interruptions *spec.Interruptions
	// Prices are those of a node, and Limits what all nodes together may be.
	Prices spec.Prices
	Limits spec.PoolLimits
	// AgentPath is the agent's executable.
	AgentPath string
	// Agent is what all agents are told: Address, Namespace, Store, LogDir, PythonEnv. The pool sets the rest.
	Agent protocol.AgentConfig
	// Faults is the file that remembers which GPUs are broken, for all pools of this machine.
	Faults string
	// Gangs are those of all pools on this machine, which share it. nil: there is no other pool.
	Gangs *Gangs
	// Machine says what this machine has; nil: Inspect, with the agents' helper.
	Machine func() Machine
	// Token makes the secret by which the agents of one workflow may poll queues with the prefix.
	Token func(queuePrefix, workflow string) string
}

// Pool implements training.Pool.
type Pool struct {
	opts Options

	mu      sync.Mutex
	gangs   map[training.Key]*gang
	market  *market
	machine machineCache
}

// New makes a pool.
func New(o Options) *Pool {
	if o.Machine == nil {
		o.Machine = func() Machine { return Inspect(context.Background(), o.Agent.GPUHelper) }
	}
	if o.Gangs == nil {
		o.Gangs = &Gangs{}
	}
	return &Pool{opts: o, gangs: map[training.Key]*gang{}, market: marketOf(o)}
}

// Acquire implements training.Pool.
func (p *Pool) Acquire(ctx context.Context, r training.Request) (training.Gang, error) {
	var machine Machine
	var at time.Time
	if needs := r.Resources; needs.Memory > 0 || needs.SHM > 0 || needs.GPU > 0 {
		machine, at = p.machine.get(p.opts.Machine, time.Now()) // before the lock: a driver may be slow to answer
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var ended []training.Gang
	if g, ok := p.gangs[r.Key]; ok && g.lives() {
		return g.Gang, nil
	} else if ok {
		g.end()
		p.remove(r.Key, g)
		ended = append(ended, g.paid())
	}
	dir := p.dir(r.Key)
	if old, err := readRecord(dir); err != nil {
		return training.Gang{}, err
	} else if old.lives() {
		return old.Gang, nil
	} else if len(old.Nodes) > 0 { // it died with the process that started it
		gang, err := killRecord(ctx, dir)
		if err != nil {
			return training.Gang{}, err
		}
		ended = append(ended, gang)
	}
	p.opts.Gangs.mu.Lock()
	defer p.opts.Gangs.mu.Unlock()
	n, gpus, err := p.admit(r, machine, at)
	if err != nil {
		return training.Gang{}, training.FailedStart(err, ended...)
	}
	g, err := p.start(ctx, dir, r, n, gpus)
	if err != nil {
		return training.Gang{}, training.FailedStart(err, ended...)
	}
	p.gangs[r.Key] = g
	p.opts.Gangs.all = append(p.opts.Gangs.all, g)
	gang := g.Gang
	gang.Ended = ended
	return gang, nil
}

// remove takes a gang that has ended off the books.
func (p *Pool) remove(key training.Key, g *gang) {
	delete(p.gangs, key)
	p.opts.Gangs.remove(g)
}

// Watch implements training.Pool.
func (p *Pool) Watch(ctx context.Context, key training.Key, _ func(training.Notice) error) (training.Loss, error) {
	p.mu.Lock()
	g, ok := p.gangs[key]
	p.mu.Unlock()
	if ok {
		return g.watch(ctx)
	}
	return watchRecord(ctx, p.dir(key))
}

// Release implements training.Pool.
func (p *Pool) Release(ctx context.Context, key training.Key) ([]training.Gang, error) {
	p.mu.Lock()
	g, ok := p.gangs[key]
	p.mu.Unlock()
	dir := p.dir(key)
	var paid training.Gang
	var err error
	if ok {
		g.end()
		paid = g.paid()
	} else if paid, err = killRecord(ctx, dir); err != nil {
		return nil, fmt.Errorf("release %s: %w", key, err)
	}
	// The record goes last: as long as it is there, Release can be called again.
	if err := p.clear(dir); err != nil {
		return nil, fmt.Errorf("release %s: %w", key, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if ok {
		p.remove(key, g)
	}
	return []training.Gang{paid}, nil
}

// Close ends every node that this process started. The gangs' records stay: whoever watches them next sees that they are lost.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, g := range p.gangs {
		g.end()
		p.remove(key, g)
	}
}

func (p *Pool) dir(key training.Key) string { return filepath.Join(p.opts.Dir, key.String()) }

// admit says how many nodes a request gets of the machine, as it was at a time, and which GPUs each has.
func (p *Pool) admit(r training.Request, machine Machine, at time.Time) (int, [][]gpu.Unit, error) {
	most, err := p.market.sells(r, p.gangs, time.Now())
	if err != nil {
		return 0, nil, err
	}
	needs := r.Resources
	if needs.GPU > 0 && machine.Unlisted != nil {
		return 0, nil, fmt.Errorf("%w: the GPUs of this machine cannot be listed: %w", training.ErrNoCapacity, machine.Unlisted)
	}
	withoutGPUs := needs
	withoutGPUs.GPU = 0
	_, err = machine.holds(withoutGPUs, r.MinNodes, r.MaxNodes)
	if err == nil && len(machine.GPUs.Lost) == 0 { // a GPU that is lost may come back
		_, err = machine.holds(needs, r.MinNodes, r.MaxNodes)
	}
	if err != nil {
		return 0, nil, fmt.Errorf("%w: %w", training.ErrTooLarge, err)
	}
	var broken []fault
	if needs.GPU > 0 {
		if broken, err = readFaults(p.opts.Faults, machine.GPUs, at); err != nil {
			return 0, nil, err
		}
		machine = machine.withoutFaulty(broken)
	}
	for _, g := range p.opts.Gangs.all {
		machine = machine.without(g)
	}
	n, err := machine.holds(needs, r.MinNodes, most)
	if err != nil {
		return 0, nil, fmt.Errorf("%w: %w%s", training.ErrNoCapacity, err, outOfUse(machine.GPUs.Lost, broken, p.opts.Faults))
	}
	placed, _ := machine.GPUs.Place(gpu.OfTypes(machine.free(), needs.GPUType), n, needs.GPU)
	return n, placed, nil
}

// start starts the agents of a gang, all or none.
func (p *Pool) start(ctx context.Context, dir string, r training.Request, n int, gpus [][]gpu.Unit) (*gang, error) {
	if err := p.clear(dir); err != nil {
		return nil, err
	}
	g := &gang{
		record: record{Dir: dir}, resources: r.Resources, gpus: gpus, released: make(chan struct{}), gone: make(chan struct{}),
		reasons: map[int]string{}, ends: map[int]time.Time{},
	}
	g.Capacity, g.USDPerHour = r.Capacity, p.opts.Prices.Of(r.Capacity)
	for i := range n {
		config := p.opts.Agent
		config.Queue = r.Queue(i, uuid.NewString())
		config.Dir = g.nodeDir(i)
		config.Host = host
		config.CPUs = max(1, runtime.NumCPU()/n)
		if gpus != nil {
			for _, u := range gpus[i] {
				config.GPUs = append(config.GPUs, u.UUID)
			}
		}
		config.Token = p.opts.Token(r.QueuePrefix(), r.Workflow)
		g.Nodes = append(g.Nodes, training.Node{Index: i, Name: fmt.Sprintf("local-%d", i), Queue: config.Queue, Address: host})
		logs := filepath.Join(config.LogDir, r.Run, r.Step)
		if err := g.startNode(ctx, p.opts.AgentPath, config, filepath.Join(logs, fmt.Sprintf("g%d-agent%d.log", r.Generation, i))); err != nil {
			g.end()
			if errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("%w: %s: build it beside sluice, or set its path with SLUICE_AGENT", training.ErrNoAgent, p.opts.AgentPath)
			}
			return nil, training.FailedStart(fmt.Errorf("start node %d: %w", i, err), g.paid())
		}
	}
	if err := protocol.WriteFile(recordPath(dir), g.record); err != nil {
		g.end()
		return nil, training.FailedStart(fmt.Errorf("record the gang: %w", err), g.paid())
	}
	g.tasks.Go(g.seen)
	if in := p.opts.Interruptions; in != nil && r.Capacity != spec.CapacityOnDemand {
		g.tasks.Go(func() {
			g.interrupt(interruptionOf(*in, r.Key, n), func() { p.market.dry(time.Duration(in.Gap)) })
		})
	}
	return g, nil
}
