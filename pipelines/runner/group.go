package runner

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

// groups holds the elements given to a GroupByKey, by key.
type groups struct {
	from []*stage // the stages that add elements

	mu    sync.Mutex
	keys  exec.ElementEncoder
	at    map[string]int // index in list by encoded key
	list  []*group       // in the order in which the keys first appeared
	coded bytes.Buffer   // buffer for the current key
}

// group holds the values of one key.
type group struct {
	key    any
	values []exec.FullValue
}

func newGroups(elements *coder.Coder) *groups {
	return &groups{keys: exec.MakeElementEncoder(elements.Components[0]), at: map[string]int{}}
}

// add adds an element. Keys are equal if their encodings are, as on any Beam runner.
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

// unit implements what all of Beam's execution nodes have in common.
type unit struct{ id exec.UnitID }

func (u unit) ID() exec.UnitID            { return u.id }
func (u unit) Up(context.Context) error   { return nil }
func (u unit) Down(context.Context) error { return nil }

// grouper ends a stage: it adds each element to the groups.
type grouper struct {
	unit
	into *groups
}

func (n *grouper) String() string                                              { return "GroupByKey" }
func (n *grouper) StartBundle(context.Context, string, exec.DataContext) error { return nil }
func (n *grouper) FinishBundle(context.Context) error                          { return nil }

// ProcessElement adds a key and a value.
func (n *grouper) ProcessElement(_ context.Context, e *exec.FullValue, _ ...exec.ReStream) error {
	return n.into.add(e.Elm, e.Elm2)
}

// root begins a stage: it emits each group, or the single element of an Impulse.
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

// Process emits everything, and releases groups as it goes.
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
