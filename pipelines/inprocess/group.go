package inprocess

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/coder"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/exec"
)

// groups are the elements that a GroupByKey has been given, by key.
type groups struct {
	from []*stage // that give them

	mu    sync.Mutex
	keys  exec.ElementEncoder
	at    map[string]int // of a key as it is encoded, in list
	list  []*group       // as their keys came first
	coded bytes.Buffer   // the key at hand
}

// group is what has one key.
type group struct {
	key    any
	values []exec.FullValue
}

func newGroups(elements *coder.Coder) *groups {
	return &groups{keys: exec.MakeElementEncoder(elements.Components[0]), at: map[string]int{}}
}

// add takes in an element. Keys are equal when they are encoded alike, as on any runner.
func (g *groups) add(key, value any) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.coded.Reset()
	if err := g.keys.Encode(&exec.FullValue{Elm: key}, &g.coded); err != nil {
		return fmt.Errorf("encode the key %v: %w", key, err)
	}
	at, ok := g.at[g.coded.String()]
	if !ok {
		at = len(g.list)
		g.at[g.coded.String()] = at
		g.list = append(g.list, &group{key: key})
	}
	g.list[at].values = append(g.list[at].values, exec.FullValue{Elm: value})
	return nil
}

// unit is what all of Beam's execution nodes have.
type unit struct{ id exec.UnitID }

func (u unit) ID() exec.UnitID            { return u.id }
func (u unit) Up(context.Context) error   { return nil }
func (u unit) Down(context.Context) error { return nil }

// grouper ends a stage: it gives each element to the groups.
type grouper struct {
	unit
	into *groups
}

func (n *grouper) String() string                                              { return "GroupByKey" }
func (n *grouper) StartBundle(context.Context, string, exec.DataContext) error { return nil }
func (n *grouper) FinishBundle(context.Context) error                          { return nil }

// ProcessElement takes a key and a value.
func (n *grouper) ProcessElement(_ context.Context, e *exec.FullValue, _ ...exec.ReStream) error {
	return n.into.add(e.Elm, e.Elm2)
}

// root begins a stage: it passes on each group, or else the one element of an Impulse.
type root struct {
	unit
	groups  *groups
	impulse []byte
	out     exec.Node
}

func (n *root) String() string { return "root" }

func (n *root) StartBundle(ctx context.Context, id string, data exec.DataContext) error {
	return n.out.StartBundle(ctx, id, data)
}

func (n *root) FinishBundle(ctx context.Context) error { return n.out.FinishBundle(ctx) }

// Process passes everything on. What it has passed on it forgets.
func (n *root) Process(ctx context.Context) ([]*exec.Checkpoint, error) {
	element := exec.FullValue{Windows: window.SingleGlobalWindow, Timestamp: mtime.ZeroTimestamp}
	if n.groups == nil {
		element.Elm = n.impulse
		return nil, n.out.ProcessElement(ctx, &element)
	}
	clear(n.groups.at)
	for i, g := range n.groups.list {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n.groups.list[i] = nil
		element.Elm = g.key
		if err := n.out.ProcessElement(ctx, &element, &exec.FixedReStream{Buf: g.values}); err != nil {
			return nil, err
		}
	}
	return nil, nil
}
