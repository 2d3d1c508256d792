// Package training is about gangs of nodes that train together and may be taken away at any moment. It holds the words that the
// train workflow, its activities, the pools and the node agent share, and the interface every pool of nodes fulfils.
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

// Key names one generation of a step's gang: one life, from Acquire to Release.
type Key struct {
	Run        string `json:"run"`
	Step       string `json:"step"`
	Generation int    `json:"generation"` // from 1
}

// String is fit for a file name where the run's ID is.
func (k Key) String() string { return fmt.Sprintf("%s-%s-g%d", k.Run, k.Step, k.Generation) }

// QueuePrefix is what the task queues of all nodes of the step begin with.
func (k Key) QueuePrefix() string { return "node/" + k.Run + "/" + k.Step + "/" }

// Queue is the task queue of one node. The nonce makes it a queue that no other node ever polled.
func (k Key) Queue(node int, nonce string) string {
	return fmt.Sprintf("%sg%d/%d-%s", k.QueuePrefix(), k.Generation, node, nonce)
}

// Node is one machine of a gang, with an agent that polls Queue.
type Node struct {
	Index   int    `json:"index"` // from 0, in rank order
	Name    string `json:"name"`  // for people
	Queue   string `json:"queue"`
	Address string `json:"address"` // at which the other nodes reach it
	// Machine names what the node is on, where another gang may come to be on the same. A pool that keeps account of its broken GPUs by
	// itself, or gives machines back for good, leaves it out.
	Machine string `json:"machine,omitempty"`
	// Type is the type of the machine, and Zone where it is, as its provider calls them; empty where the pool has no such thing, or may not
	// look it up.
	Type string `json:"type,omitempty"`
	Zone string `json:"zone,omitempty"`
	// BeganAt is since when the node is paid for, and EndedAt until when; zero while it is there, and where the pool does not know.
	BeganAt time.Time `json:"began_at,omitzero"`
	EndedAt time.Time `json:"ended_at,omitzero"`
}

// Gang is what Acquire hands out.
type Gang struct {
	Nodes []Node `json:"nodes"`
	// Capacity is what was bought: spec.CapacitySpot or spec.CapacityOnDemand.
	Capacity string `json:"capacity,omitempty"`
	// USDPerHour is what a node costs, as far as the pool knows.
	USDPerHour float64 `json:"usd_per_hour,omitempty"`
	// Ended are gangs of the same key that Acquire ended, or found to have ended, before it started this one.
	Ended []Gang `json:"-"`
}

// Loss says which nodes are known to have gone, and of the first how that was seen.
type Loss struct {
	Nodes  []int  `json:"nodes"`
	Reason string `json:"reason"` // one line
}

// Notice says that a node will be taken away.
type Notice struct {
	Node   int
	Until  time.Time // it may be gone from then on
	Reason string    // one line
}

// FailedStartError is an error of Acquire that was paid for: nodes had begun, and ended before their gang was whole.
type FailedStartError struct {
	Gangs []Gang
	Err   error
}

// FailedStart adds to the error of Acquire the gangs that it ended, if there are any.
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
	// MinNodes and MaxNodes bound the gang; the pool gives as many as it can at once.
	MinNodes int `json:"min_nodes"`
	MaxNodes int `json:"max_nodes"`
	// Workflow is the ID of the workflow that the agents answer to.
	Workflow string `json:"workflow"`
	// Capacity is what to buy: spec.CapacitySpot or spec.CapacityOnDemand, and one that the pool sells.
	Capacity string `json:"capacity,omitempty"`
	// Resources are what each node must have.
	Resources spec.Resources `json:"resources,omitzero"`
	// Image is the container image of the ranks; empty for the pool's.
	Image string `json:"image,omitempty"`
	// Avoid are machines, by Node.Machine, that the gang is not to be on.
	Avoid []string `json:"avoid,omitempty"`
}

// Pool is where nodes come from. All methods are safe for concurrent use and, for one key, may be called again at any time by
// any worker that shares the pool's state, since a worker may die in the middle of each.
type Pool interface {
	// Acquire starts a gang, all of it or nothing, and returns when every node's agent has been started; the agents need not poll
	// yet. Called again for a gang that lives, it returns the same gang. Where every node is gone it may start another. The error has
	// a Refusal where the pool does not give any, and is a FailedStartError where nodes were paid for.
	Acquire(ctx context.Context, r Request) (Gang, error)
	// Watch blocks until a node of the gang is gone and returns those that are. A gang that the pool has no record of is lost, all
	// of it: Nodes is empty then. It returns ctx's error when that ends first. Until then it calls notice, one call at a time, for each
	// node of which it learns that it will be taken away, and again a little later where notice fails. A pool that hears of this no sooner
	// than its nodes never calls it.
	Watch(ctx context.Context, key Key, notice func(Notice) error) (Loss, error)
	// Release ends every process on the gang's nodes, at once, and gives the nodes back. A gang that is unknown is no error. When
	// it returns, nothing of the gang runs any more where the pool can reach it. It returns what it knows of the times of the gang's nodes,
	// and of gangs of the same key that never started; called again, it may know less.
	Release(ctx context.Context, key Key) ([]Gang, error)
}

// MetricsPath is where the metrics of a node's rank lie under the log folder.
func MetricsPath(k Key, rank int) string {
	return path.Join(k.Run, k.Step, fmt.Sprintf("g%d-rank%d.metrics.jsonl", k.Generation, rank))
}

// LogPath is where the output of a node's rank lies under the log folder.
func LogPath(k Key, rank int) string {
	return path.Join(k.Run, k.Step, fmt.Sprintf("g%d-rank%d.log", k.Generation, rank))
}
