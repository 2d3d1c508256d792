// Package kubernetes is a pool whose nodes are pods. The cluster is the pool's only memory, so that any worker can go on with what
// another began. A gang is
//
//   - a ConfigMap, its claim: it exists from before the first pod until after the last, owns all that follows, and says how many nodes
//     there are. Claims count against the pool's limits in the order in which they were made;
//   - a Secret with what its agents are told;
//   - a pod for each node;
//   - a second ConfigMap once all of them run, which is the gang as it was handed out.
//
// Every name follows from the gang's key and, but for the claim's, from the claim's identity.
package kubernetes

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/delivery"
	"github.com/sluiceml/sluice/training/kubernetes/podtemplate"
	"github.com/sluiceml/sluice/training/protocol"
)

const (
	// patience is how long a gang may wait for machines, or in its queue, before Acquire says that there is no capacity: autoscalers add
	// machines within minutes.
	patience = spec.KubernetesWithin
	// imagePatience is how long an image may fail to be pulled: registries have hiccups.
	imagePatience = 30 * time.Second
	// callLimit bounds one call of the API.
	callLimit = 30 * time.Second
)

// Options configure a pool.
type Options struct {
	// Name of the pool, as its environment calls it.
	Name string
	// Client of the cluster's API, and the namespace of the pods.
	Client    corev1.CoreV1Interface
	Namespace string
	// Spec is the pool as its environment describes it.
	Spec spec.Pool
	// Agent is what all agents are told: Address, Namespace, Store, CodecKeys. The pool sets the rest.
	Agent protocol.AgentConfig
	// Environ is the environment of an agent on another machine that is told a config, with how it reaches Temporal where that has no token.
	Environ func(protocol.AgentConfig) ([]string, error)
	// Token makes the secret by which the agents of one workflow may poll queues with the prefix.
	Token func(queuePrefix, workflow string) string
	// Program lends the agent's executable, for a time.
	Program func(ctx context.Context, life time.Duration) (delivery.Item, error)
}

// Pool implements training.Pool.
type Pool struct {
	opts                    Options
	patience, imagePatience time.Duration
}

// New makes a pool.
func New(o Options) *Pool { return &Pool{opts: o, patience: patience, imagePatience: imagePatience} }

// Acquire implements training.Pool.
func (p *Pool) Acquire(ctx context.Context, r training.Request) (training.Gang, error) {
	if err := cmp.Or(p.checkKeys(), p.fits(r), p.checkTemplate()); err != nil {
		return training.Gang{}, err
	}
	most := r.MaxNodes
	var ended []training.Gang
	for {
		g, replaced, err := p.claim(ctx, r, most)
		ended = append(ended, replaced...)
		if err != nil {
			return training.Gang{}, training.FailedStart(err, ended...)
		}
		gang, err := p.start(ctx, g, r)
		if err == nil {
			gang.Ended = ended
			return gang, nil
		}
		fewer, keep := outcome(err, r, g.nodes)
		if keep || ctx.Err() != nil { // who asks again finds it, and whoever does not releases it
			return training.Gang{}, training.FailedStart(err, ended...)
		}
		paid, failed := p.remove(ctx, g)
		ended = append(ended, paid)
		if failed != nil {
			return training.Gang{}, training.FailedStart(failed, ended...)
		}
		if fewer == 0 {
			return training.Gang{}, training.FailedStart(err, ended...)
		}
		most = fewer
	}
}

// outcome says of a gang that was not started with how many nodes less to try again, if at all, and whether it keeps what it has.
func outcome(err error, r training.Request, nodes int) (fewer int, keep bool) {
	wait, ok := err.(*waitError) //nolint:errorlint // start returns it as it is
	switch {
	case !ok:
		return 0, false
	case r.MinNodes < nodes && (wait.queued || wait.placed >= r.MinNodes):
		return max(r.MinNodes, wait.placed), false
	}
	return 0, wait.queued
}

// Release implements training.Pool.
func (p *Pool) Release(ctx context.Context, key training.Key) ([]training.Gang, error) {
	g, found, err := p.find(ctx, key)
	var ended []training.Gang
	if err == nil && found {
		ended = make([]training.Gang, 1)
		ended[0], err = p.remove(ctx, g)
	}
	if err != nil {
		return nil, fmt.Errorf("release %s: %w", key, err)
	}
	return ended, nil
}

// Watch implements training.Pool.
func (p *Pool) Watch(ctx context.Context, key training.Key, notice func(training.Notice) error) (training.Loss, error) {
	g, found, err := p.find(ctx, key)
	if err != nil {
		return training.Loss{}, err
	}
	if !found {
		return training.Loss{Reason: "the pool has no record of the gang"}, nil
	}
	started, known, err := p.started(ctx, g)
	if err != nil {
		return training.Loss{}, err
	}
	if !known {
		return training.Loss{Reason: "the gang was never complete"}, nil
	}
	return p.watch(ctx, g, started, notice)
}

// gang is a gang as its claim says.
type gang struct {
	key      training.Key
	name     string // of the claim; all other names begin with it
	uid      types.UID
	version  string // of the claim, which is never changed: the place in the order of claims
	nodes    int
	capacity string
}

// incarnation begins the names of all that belongs to this claim and none before it.
func (g gang) incarnation() string { return g.name + "-" + string(g.uid[:8]) }

func (g gang) podName(node int) string { return fmt.Sprintf("%s-%d", g.incarnation(), node) }

// checkTemplate refuses a template before anything is made by it.
func (p *Pool) checkTemplate() error {
	if _, err := podtemplate.Parse(p.opts.Spec.Kubernetes.Pod); err != nil {
		return fmt.Errorf("`kubernetes.pod`: %w: %w", err, training.ErrInvalid)
	}
	return nil
}

// fits refuses what the pool never has.
func (p *Pool) fits(r training.Request) error {
	has, wants := p.opts.Spec.Node, r.Resources
	var short string
	switch {
	case r.MinNodes > p.limit(r.Capacity):
		short = fmt.Sprintf("%d nodes are needed, but the pool is limited to %d", r.MinNodes, p.limit(r.Capacity))
	case has.CPU > 0 && wants.CPU > has.CPU:
		short = fmt.Sprintf("each node must have %v cores, but the pool's nodes have %v", wants.CPU, has.CPU)
	case has.Memory > 0 && wants.Memory > has.Memory:
		short = fmt.Sprintf("each node must have %s of memory, but the pool's nodes have %s", wants.Memory, has.Memory)
	case has.GPU > 0 && wants.GPU > has.GPU:
		short = fmt.Sprintf("each node must have %d GPUs, but the pool's nodes have %d", wants.GPU, has.GPU)
	case len(wants.GPUType) > 0 && len(p.gpuTypes(r)) == 0:
		short = fmt.Sprintf("each node must have a GPU of type %v, but the pool's GPUs are %s", wants.GPUType, has.GPUType)
	case r.Image == "" && p.opts.Spec.Runtime.Image == "":
		return fmt.Errorf("neither the step's `runtime` nor the pool's sets an image: %w", training.ErrInvalid)
	default:
		return nil
	}
	return fmt.Errorf("%s: %w", short, training.ErrTooLarge)
}
