package transform

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/sluiceml/sluice/dsl/spec"
)

// Node is a transform of a cleaning with where its rows come from. Its name is the whole one, OUTER/INNER.
type Node struct {
	spec.Transform
	// From are the outputs that it takes rows from; none when it reads files.
	From []Output
	// Rejects is the output that the rows it rejects go to; empty when they go to the dead letter.
	Rejects string
}

// Output is an output of a transform.
type Output struct {
	// Node is the index of the transform.
	Node int
	// Name of the output; empty for the one that has all rows but those of named outputs.
	Name string
}

// Graph returns the transforms of a cleaning in an order in which each comes after those that it takes rows from, or what is wrong with the graph. Of
// a group it has the transforms inside.
func Graph(spec *spec.Clean) ([]Node, error) {
	if len(spec.Transforms) == 0 {
		return nil, errors.New("there are no transforms: begin with one that reads and end with one that writes")
	}
	list, all := wireSpec(spec)
	if len(all) > maxTransforms {
		return nil, errTransforms
	}
	g := resolveGraph(all)
	if len(g.errors) > 0 {
		e := g.errors[0]
		err := fmt.Errorf("transform %s (%s): %s", all[e.at].label(), all[e.at].typ, e.message)
		if e.hint != "" {
			err = fmt.Errorf("%w; %s", err, e.hint)
		}
		return nil, err
	}
	nodes, place := make([]Node, len(g.order)), make([]int, len(all))
	for i, at := range g.order {
		place[at] = i
		nodes[i] = Node{Transform: *list[at], Rejects: all[at].config.ErrorHandling.Output}
		nodes[i].Name = all[at].label()
		for _, from := range g.from[at] {
			nodes[i].From = append(nodes[i].From, Output{Node: place[from.Node], Name: from.Name})
		}
	}
	return nodes, nil
}

// wireSpec lists the transforms, those inside groups after the group, and what the graph sees of each.
func wireSpec(sp *spec.Clean) ([]*spec.Transform, []wiring) {
	top := spec.Transform{Type: sp.Type, Source: sp.Source, Transforms: sp.Transforms, Sink: sp.Sink, ExtraTransforms: sp.ExtraTransforms}
	chain, extra := members(&top)
	return wire(sp.Type, chain, extra, func(t *spec.Transform) (w wiring, chain, extra []*spec.Transform) {
		w = wiring{typ: t.Type, name: t.Name, inputs: t.Input, inputNames: t.InputNames}
		for _, name := range slices.Sorted(maps.Keys(t.Output)) {
			w.outputs = append(w.outputs, groupOutput{name, t.Output[name]})
		}
		if len(t.Config) > 0 {
			_ = json.Unmarshal(t.Config, &w.config) // what has another form is an error of the transform
		}
		chain, extra = members(t)
		return w, chain, extra
	})
}

// configsOf are the configs in a resolved spec of the transforms of such types, if they have one, with the labels of these.
func configsOf[C any](sp *spec.Clean, such func(typ string) bool) (configs []C, labels []string, err error) {
	list, wired := wireSpec(sp)
	for i, n := range list {
		if !such(n.Type) || len(n.Config) == 0 {
			continue
		}
		config := spec.DefaultsOf[C]()
		if err := json.Unmarshal(n.Config, &config); err != nil {
			return nil, nil, fmt.Errorf("transform %s: %w", wired[i].label(), err)
		}
		configs, labels = append(configs, config), append(labels, wired[i].label())
	}
	return configs, labels, nil
}

// members are the transforms inside a group.
func members(t *spec.Transform) (chain, extra []*spec.Transform) {
	if t.Source != nil {
		chain = append(chain, t.Source)
	}
	for i := range t.Transforms {
		chain = append(chain, &t.Transforms[i])
	}
	if t.Sink != nil {
		chain = append(chain, t.Sink)
	}
	for i := range t.ExtraTransforms {
		extra = append(extra, &t.ExtraTransforms[i])
	}
	return chain, extra
}

// maxTransforms bounds the transforms of a step: aliases of aliases could stand for any number.
const maxTransforms = 2000

var errTransforms = fmt.Errorf("there are more than %d transforms", maxTransforms)

// wire lists the transforms of a graph and what it sees of each: first those of the chain, or of the composite, then those beside it.
// Those inside a group come after it. It stops behind the bound.
func wire[T any](typ string, chain, extra []T, of func(T) (w wiring, chain, extra []T)) (list []T, all []wiring) {
	var visit func(in int, typ string, chain, extra []T)
	visit = func(in int, typ string, chain, extra []T) {
		before := noGroup
		for i, t := range slices.Concat(chain, extra) {
			if len(all) > maxTransforms {
				return
			}
			at := len(all)
			w, inner, more := of(t)
			w.in, w.before = in, noGroup
			if in != noGroup {
				w.prefix = all[in].label() + "/"
			}
			if w.chained = typ != compositeGroup && i < len(chain); w.chained {
				w.before, w.first, w.last = before, i == 0, i == len(chain)-1
				before = at
			}
			list, all = append(list, t), append(all, w)
			if w.group() {
				visit(at, w.typ, inner, more)
			}
		}
	}
	visit(noGroup, typ, chain, extra)
	return list, all
}
