// Package training is about gangs of nodes that train together and may be taken away at any moment. It has the types that the train
// workflow, its activities, the pools and the node agent share, and the interface that every pool implements.
package training

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
)

// Key identifies one generation of a step's gang, from Acquire to Release.
type Key struct {
	Run        string `json:"run"`
	Step       string `json:"step"`
	Generation int    `json:"generation"` // from 1
}

// String can be part of a file name if the run's ID can.
func (k Key) String() string { return fmt.Sprintf("%s-%s-g%d", k.Run, k.Step, k.Generation) }

// QueuePrefix is the prefix of the task queues of all nodes of the step.
func (k Key) QueuePrefix() string { return "node/" + k.Run + "/" + k.Step + "/" }

// Queue is the task queue of one node. The nonce makes it a queue that no other node has ever polled.
func (k Key) Queue(node int, nonce string) string {
	return fmt.Sprintf("%sg%d/%d-%s", k.QueuePrefix(), k.Generation, node, nonce)
}

// Node is one machine of a gang, with an agent that polls Queue.
type Node struct {
	Index   int    `json:"index"` // from 0, in rank order
	Name    string `json:"name"`  // for people
	Queue   string `json:"queue"`
	Address string `json:"address"` // at which the other nodes reach it
	// Machine identifies the machine of the node, if another gang may get the same machine. It is empty for pools that keep track of faulty
	// GPUs themselves, or that never reuse machines.
	Machine string `json:"machine,omitempty"`
	// Type is the machine type, and Zone the zone, by the provider's names; empty if the pool has no such thing, or may not look it up.
	Type string `json:"type,omitempty"`
	Zone string `json:"zone,omitempty"`
	// BeganAt is since when the node is paid for, and EndedAt until when; zero while the node exists, and if the pool does not know.
	BeganAt time.Time `json:"began_at,omitzero"`
	EndedAt time.Time `json:"ended_at,omitzero"`
}

// Gang is the result of Acquire.
type Gang struct {
	Nodes []Node `json:"nodes"`
	// Capacity is what was bought: spec.CapacitySpot or spec.CapacityOnDemand.
	Capacity string `json:"capacity,omitempty"`
	// USDPerHour is what a node costs, as far as the pool knows.
	USDPerHour float64 `json:"usd_per_hour,omitempty"`
	// Ended are gangs of the same key that Acquire ended, or found ended, before it started this one.
	Ended []Gang `json:"-"`
}

// Loss lists the nodes that are known to be gone, with the reason for the first.
type Loss struct {
	Nodes  []int  `json:"nodes"`
	Reason string `json:"reason"` // one line
}

// Notice announces that a node will be taken away.
type Notice struct {
	Node   int
	Until  time.Time // it may be gone from then on
	Reason string    // one line
}

// FailedStartError is an error of Acquire with a cost: nodes had started, and ended before their gang was complete.
type FailedStartError struct {
	Gangs []Gang
	Err   error
}

// FailedStart adds the gangs that Acquire ended to its error, if there are any.
func FailedStart(err error, ended ...Gang) error {
	var before *FailedStartError
	if errors.As(err, &before) {
		ended = append(ended, before.Gangs...)
	}
	ended = slices.DeleteFunc(slices.Clone(ended), func(g Gang) bool { return len(g.Nodes) == 0 })
	if len(ended) == 0 {
		return err
	}
	return &FailedStartError{Gangs: ended, Err: err}
}

func (e *FailedStartError) Error() string { return e.Err.Error() }

func (e *FailedStartError) Unwrap() error { return e.Err }

// Request asks a pool for a gang.
type Request struct {
	Key
	// MinNodes and MaxNodes limit the size of the gang; the pool provides as many nodes as it can at once.
	MinNodes int `json:"min_nodes"`
	MaxNodes int `json:"max_nodes"`
	// Workflow is the ID of the workflow that the agents belong to.
	Workflow string `json:"workflow"`
	// Capacity is the capacity type to use, spec.CapacitySpot or spec.CapacityOnDemand, which the pool must offer.
	Capacity string `json:"capacity,omitempty"`
	// Resources are what each node must have.
	Resources spec.Resources `json:"resources,omitzero"`
	// Image is the container image of the ranks; empty for the pool's.
	Image string `json:"image,omitempty"`
	// Avoid are machines, by Node.Machine, that the gang must not use.
	Avoid []string `json:"avoid,omitempty"`
}

// Pool provides nodes. All methods are safe for concurrent use. For one key, they may be called again at any time by any worker that shares
// the pool's state, because a worker may die in the middle of each.
type Pool interface {
	// Acquire starts a gang as a whole or not at all, and returns when every node's agent has been started; the agents need not poll yet.
	// If the gang exists, it returns the same gang. If every node is gone, it may start another. The error has a Refusal if the pool
	// provides no nodes, and is a FailedStartError if nodes were paid for.
	Acquire(ctx context.Context, r Request) (Gang, error)
	// Watch blocks until a node of the gang is gone and returns the lost nodes. A gang without a record in the pool is lost as a whole:
	// Nodes is then empty. It returns ctx's error if that ends first. Until then it calls notice, one call at a time, for each node that it
	// learns will be taken away, and again a little later if notice fails. A pool that learns of this no sooner than its nodes never calls
	// it.
	Watch(ctx context.Context, key Key, notice func(Notice) error) (Loss, error)
	// Release ends every process on the gang's nodes at once, and gives the nodes back. An unknown gang is not an error. When it returns,
	// nothing of the gang runs any more as far as the pool can reach it. It returns what it knows of the times of the gang's nodes, and of
	// gangs of the same key that never started; if it is called again, it may know less.
	Release(ctx context.Context, key Key) ([]Gang, error)
}

// MetricsPath is the path of the metrics of a node's rank, relative to the log folder.
func MetricsPath(k Key, rank int) string {
	return path.Join(k.Run, k.Step, fmt.Sprintf("g%d-rank%d.metrics.jsonl", k.Generation, rank))
}
