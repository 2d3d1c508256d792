package dsl

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// TransformInputs name what a transform takes rows from: a transform by its name, or one of its outputs as NAME.OUTPUT.
type TransformInputs []string

var inputsType = reflect.TypeFor[TransformInputs]()

// GraphNode is a transform of a cleaning with where its rows come from.
type GraphNode struct {
	Transform
	// From are the outputs that it takes rows from; none when it reads files.
	From []GraphOutput
	// Rejects is the output that the rows it rejects go to; empty when they go to the dead letter.
	Rejects string
}

// GraphOutput is an output of a transform.
type GraphOutput struct {
	// Node is the index of the transform.
	Node int
	// Name of the output; empty for the one that has all rows but those of named outputs.
	Name string
}

// Graph returns the transforms in an order in which each comes after those that it takes rows from, or what is wrong with the graph.
func (spec *Clean) Graph() ([]GraphNode, error) {
	if len(spec.Transforms) == 0 {
		return nil, errors.New("there are no transforms: begin with one that reads and end with one that writes")
	}
	var all []wiring
	for i, t := range slices.Concat(spec.Transforms, spec.ExtraTransforms) {
		w := wiring{typ: t.Type, name: t.Name, inputs: t.Input}
		w.place(spec.Type, i, len(spec.Transforms))
		if len(t.Config) > 0 {
			_ = json.Unmarshal(t.Config, &w.config) // what has another form is an error of the transform
		}
		all = append(all, w)
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
	list := slices.Concat(spec.Transforms, spec.ExtraTransforms)
	nodes, place := make([]GraphNode, len(list)), make([]int, len(list))
	for i, at := range g.order {
		place[at] = i
		list[at].Name = all[at].label()
		nodes[i] = GraphNode{Transform: list[at], Rejects: all[at].config.ErrorHandling.Output}
		for _, from := range g.from[at] {
			nodes[i].From = append(nodes[i].From, GraphOutput{Node: place[from.Node], Name: from.Name})
		}
	}
	return nodes, nil
}

// wiring is what the graph sees of a transform.
type wiring struct {
	typ, name string
	inputs    []string
	// chained: it is in a chain, first or last there when it is.
	chained, first, last bool
	config               wiringConfig
}

// wiringConfig are the keys of all configs that name outputs and parts.
type wiringConfig struct {
	Outputs       []string       `json:"outputs" yaml:"outputs"`
	UnknownOutput string         `json:"unknown_output" yaml:"unknown_output"`
	Path          any            `json:"path" yaml:"path"`
	Parts         map[string]any `json:"parts" yaml:"parts"`
	ErrorHandling struct {
		Output string `json:"output" yaml:"output"`
	} `json:"error_handling" yaml:"error_handling"`
}

// place notes where the transform is: the ith of all, of which the first n are those of `transforms`.
func (w *wiring) place(typ string, i, n int) {
	w.chained = typ != "composite" && i < n
	w.first, w.last = w.chained && i == 0, w.chained && i == n-1
}

func (w *wiring) label() string {
	if w.name != "" {
		return w.name
	}
	return w.typ
}

func (w *wiring) reads() bool  { return strings.HasPrefix(w.typ, "ReadFrom") }
func (w *wiring) writes() bool { return strings.HasPrefix(w.typ, "WriteTo") }

// main reports whether the transform has rows that are in no named output.
func (w *wiring) main() bool { return !w.writes() && w.typ != "Partition" }

// named lists the transform's named outputs.
func (w *wiring) named() []string {
	var names []string
	if w.typ == "Partition" {
		names = slices.Clone(w.config.Outputs)
		if w.config.UnknownOutput != "" && !slices.Contains(names, w.config.UnknownOutput) {
			names = append(names, w.config.UnknownOutput)
		}
	}
	if w.config.ErrorHandling.Output != "" {
		names = append(names, w.config.ErrorHandling.Output)
	}
	return names
}

// graphError is something wrong with the transform at an index: with its inputs' number input or the output of that name, when
// these are given.
type graphError struct {
	at, input     int
	output        string
	code          string
	message, hint string
}

// graph is a resolved graph, or what is wrong with it.
type graph struct {
	all    []wiring
	byName map[string]int
	from   [][]GraphOutput
	// order has each after those that it takes rows from.
	order  []int
	errors []graphError
}

// resolveGraph finds the inputs of each transform.
func resolveGraph(all []wiring) *graph {
	g := &graph{all: all, byName: map[string]int{}, from: make([][]GraphOutput, len(all))}
	for i := range all {
		if _, twice := g.byName[all[i].label()]; !twice { // which is reported elsewhere
			g.byName[all[i].label()] = i
		}
	}
	for i := range all {
		g.connect(i)
	}
	g.sort()
	g.checkSplits()
	g.checkParts()
	g.checkConsumed()
	return g
}

func (g *graph) report(at, input int, code, hint, format string, args ...any) {
	g.errors = append(g.errors, graphError{at: at, input: input, code: code, hint: hint, message: fmt.Sprintf(format, args...)})
}

// connect finds the inputs of one transform.
func (g *graph) connect(at int) {
	w := &g.all[at]
	switch {
	case w.typ == "": // reported elsewhere
		return
	case w.chained && len(w.inputs) > 0:
		g.report(at, 0, "rows-from", "write `type: composite` above `transforms`, or move it to `extra_transforms`",
			"`%s` stands in a chain, where each transform takes the rows of the one before", w.label())
	case w.chained && w.first && !w.reads():
		g.report(at, -1, "chain", "", "the first transform must read (ReadFrom...), and `%s` does not", w.typ)
	case w.chained && (!w.first && w.reads() || !w.last && w.writes()):
		g.report(at, -1, "chain", "", "`%s` can only stand at an end of the chain", w.typ)
	case w.chained && !w.first:
		g.chain(at)
	case w.reads() && len(w.inputs) > 0:
		g.report(at, 0, "rows-from", "remove `input`", "`%s` reads files, and takes no rows of another transform", w.typ)
	case !w.reads() && len(w.inputs) == 0:
		g.report(at, -1, "rows-from", g.suggestInput(at), "`%s` does not say whose rows it takes", w.label())
	default:
		for i := range w.inputs {
			g.input(at, i)
		}
	}
}

// chain connects a transform with the one before it.
func (g *graph) chain(at int) {
	before := &g.all[at-1]
	if before.typ != "" && !before.writes() && !before.main() {
		g.report(at, -1, "chain", "end the chain there, and name its outputs as inputs in `extra_transforms`",
			"`%s` has only named outputs, which a chain does not go on from", before.label())
		return
	}
	g.from[at] = []GraphOutput{{Node: at - 1}}
}

// input connects a transform with what its nth input names.
func (g *graph) input(at, nth int) {
	w := &g.all[at]
	name := w.inputs[nth]
	if slices.Contains(w.inputs[:nth], name) {
		g.report(at, nth, "duplicate", "remove one of them", "`%s` is in the list twice", name)
		return
	}
	node, known := g.byName[name]
	output := ""
	if dot := strings.LastIndexByte(name, '.'); !known && dot > 0 {
		node, known = g.byName[name[:dot]]
		output = name[dot+1:]
	}
	if !known {
		g.report(at, nth, "rows-from", g.nearest(name), "there is no transform `%s` in this step", name)
		return
	}
	switch from := &g.all[node]; {
	case output != "" && !slices.Contains(from.named(), output):
		g.report(at, nth, "rows-from", suggest(output, from.named()), "`%s` has no output `%s`", from.label(), output)
	case from.writes():
		g.report(at, nth, "rows-from", "take what it writes from where it takes it", "`%s` writes files, and has no rows for others", from.label())
	case output == "" && !from.main():
		g.report(at, nth, "rows-from", suggest("", g.qualified(from)), "`%s` has only named outputs", from.label())
	default:
		g.from[at] = append(g.from[at], GraphOutput{Node: node, Name: output})
	}
}

// maxHints is for how many errors the nearest of all names is looked for.
const maxHints = 100

// nearest is a hint for an input that names nothing.
func (g *graph) nearest(name string) string {
	if len(g.errors) >= maxHints {
		return ""
	}
	return suggest(name, g.outputs())
}

// outputs are all that may be named as an input.
func (g *graph) outputs() []string {
	var names []string
	for i := range g.all {
		if w := &g.all[i]; w.main() {
			names = append(names, w.label())
		}
		names = append(names, g.qualified(&g.all[i])...)
	}
	return names
}

func (g *graph) qualified(w *wiring) []string {
	var names []string
	for _, name := range w.named() {
		names = append(names, w.label()+"."+name)
	}
	return names
}

// suggestInput is a hint for a transform that names no input.
func (g *graph) suggestInput(at int) string {
	if at == 0 || !g.all[at-1].main() {
		return "write `input: NAME` beside its type"
	}
	return "write `input: " + g.all[at-1].label() + "` beside its type"
}

// sort orders the transforms and reports one that takes rows from itself.
func (g *graph) sort() {
	const entered, left = 1, 2
	state := make([]int, len(g.all))
	var path []int
	var visit func(at int)
	visit = func(at int) {
		switch state[at] {
		case left:
			return
		case entered:
			loop := append(slices.Clone(path[slices.Index(path, at):]), at)
			names := make([]string, len(loop))
			for i, on := range loop {
				names[i] = g.all[on].label()
			}
			back := slices.IndexFunc(g.from[at], func(from GraphOutput) bool { return from.Node == loop[1] })
			g.report(at, back, "cycle", "", "`%s` takes rows from itself: %s", g.all[at].label(), strings.Join(names, " <- "))
			return
		}
		state[at] = entered
		path = append(path, at)
		for _, from := range g.from[at] {
			visit(from.Node)
		}
		path = path[:len(path)-1]
		state[at] = left
		g.order = append(g.order, at)
	}
	for at := range g.all {
		visit(at)
	}
}

// checkSplits demands that a Split is followed by what writes, which takes nothing else.
func (g *graph) checkSplits() {
	for at, list := range g.from {
		for i, from := range list {
			switch {
			case g.all[from.Node].typ != "Split":
			case !g.all[at].writes():
				g.report(at, g.written(at, i), "chain", "", "only a transform that writes may follow a Split")
			case len(list) > 1:
				g.report(at, g.written(at, i), "chain", "give the other rows a transform of their own that writes",
					"`%s` writes what `%s` divides, and can take no other rows", g.all[at].label(), g.all[from.Node].label())
			}
		}
	}
}

// written is the number of an input if it is written, and else -1.
func (g *graph) written(at, input int) int {
	if g.all[at].chained {
		return -1
	}
	return input
}

// checkParts demands that two transforms do not write into one folder.
func (g *graph) checkParts() {
	owners := map[string]int{}
	for at := range g.all {
		if !g.all[at].writes() {
			continue
		}
		for _, folder := range g.folders(at) {
			if first, taken := owners[folder]; taken && first != at {
				g.report(at, -1, "duplicate", "give one of them a `path` of its own", "`%s` and `%s` both write the part `%s`",
					g.all[first].label(), g.all[at].label(), folder)
				break
			}
			owners[folder] = at
		}
	}
}

// parts are the names that the rows which a transform writes are counted by: folders of the dataset.
func (g *graph) parts(at int) []string {
	parts := g.folders(at)
	for _, from := range g.from[at] {
		path, _ := g.all[at].config.Path.(string)
		if split := g.all[from.Node].config.Parts; path != "" && split != nil {
			parts = slices.Sorted(maps.Keys(split))
			for i, part := range parts {
				parts[i] = path + "/" + part
			}
		}
	}
	return parts
}

// folders are those of the dataset that a transform writes into, but for what it divides them into.
func (g *graph) folders(at int) []string {
	if path, ok := g.all[at].config.Path.(string); ok && path != "" {
		return []string{path}
	}
	for _, from := range g.from[at] {
		if parts := g.all[from.Node].config.Parts; parts != nil {
			return slices.Sorted(maps.Keys(parts))
		}
	}
	return []string{AllRows}
}

// AllRows is the part that rows are in when nothing names another.
const AllRows = "all"

// checkConsumed demands that all rows go somewhere: each read is kept, dropped or rejected.
func (g *graph) checkConsumed() {
	used := map[GraphOutput]bool{}
	for _, list := range g.from {
		for _, from := range list {
			used[from] = true
		}
	}
	for at := range g.all {
		w := &g.all[at]
		next := w.chained && !w.last
		switch {
		case w.typ == "":
			continue
		case !w.main() || used[GraphOutput{Node: at}] || next:
		case w.last && w.first && !w.reads(): // which was said of it as the first
		case w.last:
			g.report(at, -1, "chain", "", "the last transform must write (WriteTo...), and `%s` does not", w.typ)
		default:
			g.report(at, -1, "unused-rows", "write them with a WriteTo..., or name `"+w.label()+"` as an `input`", "nothing takes the rows of `%s`", w.label())
		}
		for _, output := range w.named() {
			if !used[GraphOutput{Node: at, Name: output}] {
				name := w.label() + "." + output
				g.report(at, -1, "unused-rows", "name `"+name+"` as the `input` of a transform", "nothing takes the rows of `%s`", name)
				g.errors[len(g.errors)-1].output = output
			}
		}
	}
}
