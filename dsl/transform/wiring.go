package transform

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/internal/suggest"
)

// wiring is what the graph sees of a transform or of a group of them.
type wiring struct {
	typ, name string
	inputs    []string
	// inputNames are what those inside a group call its inputs; none: `input` is all of them.
	inputNames []string
	// outputs are those that a group names.
	outputs []groupOutput
	config  wiringConfig

	// in is the group that it is inside, and prefix the group's name with a slash.
	in     int
	prefix string
	// chained: it is in a chain, first or last there when it is, and before is the one that it comes after.
	chained, first, last bool
	before               int
}

// noGroup stands for no transform, where an index of one is meant.
const noGroup = -1

// groupOutput is an output of a group: what it is called outside, empty where it has no name, and inside.
type groupOutput struct{ name, of string }

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

// local is the name among those in the same group, and label the whole one.
func (w *wiring) local() string { return cmp.Or(w.name, w.typ) }
func (w *wiring) label() string { return w.prefix + w.local() }

func (w *wiring) reads() bool  { return IsReader(w.typ) }
func (w *wiring) writes() bool { return IsWriter(w.typ) }
func (w *wiring) group() bool  { return isGroup(w.typ) }

// graphError is something wrong with the transform at an index: with its inputs' number input or the output of that name, when
// these are given.
type graphError struct {
	at, input     int
	output        string
	code          string
	message, hint string
}

// edge is where rows come from; input is the number of the transform's input that says so, or -1.
type edge struct {
	Output
	input int
}

// wired is a transform's output, or what comes to a group as those inside see it: its input number `input`, or all.
type wired struct {
	Output
	inside bool
	input  int
}

const allInputs = -1

// graph is a resolved graph, or what is wrong with it.
type graph struct {
	all []wiring
	// names has the transforms by the group they are in and their name.
	names map[int]map[string]int
	// refs are what each takes rows from, by its inputs, and outs what the outputs of groups stand for.
	refs [][]wired
	outs []map[string]wired
	// from are the transforms, and no groups, that each transform takes rows from.
	from [][]edge
	// order has each transform after those that it takes rows from, and no groups.
	order  []int
	errors []graphError
	// misread are names in inputs that lead to no rows, of transforms and of their outputs, and meant the hints about them.
	misread, meant []string
}

// resolveGraph finds the inputs of each transform.
func resolveGraph(all []wiring) *graph {
	n := len(all)
	g := &graph{all: all, names: map[int]map[string]int{}, refs: make([][]wired, n), outs: make([]map[string]wired, n), from: make([][]edge, n)}
	for i, w := range all {
		if g.names[w.in] == nil {
			g.names[w.in] = map[string]int{}
		}
		if _, twice := g.names[w.in][w.local()]; !twice { // which is reported elsewhere
			g.names[w.in][w.local()] = i
		}
	}
	for i := range all {
		g.connect(i)
		g.handOn(i)
	}
	for i := range all {
		if !all[i].group() {
			g.follow(i)
		}
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

// connect finds what a transform or a group takes rows from.
func (g *graph) connect(at int) {
	w := &g.all[at]
	top := w.in == noGroup
	switch {
	case w.typ == "": // reported elsewhere
		return
	case w.chained && len(w.inputs) > 0:
		g.report(at, 0, "rows-from", "write `type: composite` above `transforms`, or move it to `extra_transforms`",
			"`%s` is in a chain, where each transform takes the rows of the one before", w.label())
	case w.chained && w.first && top && !w.reads() && !w.group():
		g.report(at, -1, "chain", "", "the first transform must read (ReadFrom...), and `%s` does not", w.typ)
	case w.chained && !w.first && w.reads():
		g.report(at, -1, "chain", "remove it, or what stands before it", "`%s` can only be the first transform of a chain, and rows are read before it", w.typ)
	case w.chained && !w.last && w.writes():
		g.report(at, -1, "chain", "move it to the end, or remove it", "`%s` can only be the last transform of a chain", w.typ)
	case w.chained && w.first && w.reads():
		if !top && g.given(w.in) {
			g.report(at, -1, "chain", "", "`%s` reads files, but its chain is given rows as `input`", w.label())
		}
	case w.chained && w.first:
		g.begin(at)
	case w.chained:
		g.chain(at)
	case w.reads() && len(w.inputs) > 0:
		g.report(at, 0, "rows-from", "remove `input`", "`%s` reads files, and cannot take rows of another transform", w.typ)
	case !w.reads() && !w.group() && len(w.inputs) == 0:
		g.report(at, -1, "rows-from", g.suggestInput(at), "`%s` has no `input`", w.label())
	default:
		for i := range w.inputs {
			g.input(at, i)
		}
	}
}

// chain connects a transform with the one before it.
func (g *graph) chain(at int) {
	w := &g.all[at]
	before := &g.all[w.before]
	switch {
	case before.group() && !g.main(w.before) && len(g.named(w.before)) == 0:
		g.report(at, -1, "chain", "let its last transform output rows, or write `output: NAME` in it", "`%s` outputs no rows", before.label())
		return
	case before.typ != "" && !before.writes() && !g.main(w.before):
		g.report(at, -1, "chain", "end the chain there, and name its outputs as inputs in `extra_transforms`",
			"`%s` has only named outputs, which cannot be continued in a chain", before.label())
		return
	}
	g.refs[at] = []wired{{Output: Output{Node: w.before}}}
}

// begin connects the first transform of a chain, which reads no files, with what comes to the chain.
func (g *graph) begin(at int) {
	w := &g.all[at]
	switch {
	case w.in != noGroup && g.given(w.in):
		g.refs[at] = []wired{{Output: Output{Node: w.in}, inside: true, input: allInputs}}
	case !w.group(): // a group may read itself
		g.report(at, -1, "rows-from", g.suggestGiving(w.in), "`%s` begins a chain, but the chain gets no rows", w.label())
	}
}

// given reports whether rows come to a group.
func (g *graph) given(group int) bool {
	w := &g.all[group]
	return len(w.inputs) > 0 || w.chained && (!w.first || w.in != noGroup && g.given(w.in))
}

// input connects a transform with what its nth input names.
func (g *graph) input(at, nth int) {
	w := &g.all[at]
	if slices.Contains(w.inputs[:nth], w.inputs[nth]) {
		g.report(at, nth, "duplicate", "remove one of them", "`%s` is listed twice", w.inputs[nth])
		g.refs[at] = append(g.refs[at], wired{Output: Output{Node: noGroup}})
		return
	}
	r, wrong, hint := g.resolve(w.in, w.inputs[nth])
	if wrong != "" {
		g.report(at, nth, "rows-from", hint, "%s", wrong)
		r.Node = noGroup
		of, part, _ := strings.Cut(w.inputs[nth], ".")
		g.misread, g.meant = append(g.misread, of, part), append(g.meant, hint)
	}
	g.refs[at] = append(g.refs[at], r)
}

// handOn finds what the outputs of a group stand for.
func (g *graph) handOn(at int) {
	w := &g.all[at]
	if !w.group() {
		return
	}
	g.outs[at] = map[string]wired{}
	for _, out := range w.outputs {
		r, wrong, hint := g.resolve(at, out.of)
		if wrong != "" {
			g.report(at, -1, "rows-from", hint, "%s", wrong)
			g.meant = append(g.meant, hint)
			g.errors[len(g.errors)-1].output = out.of
			continue
		}
		g.outs[at][out.name] = r
	}
	if last := g.lastOf(at); len(w.outputs) == 0 && last != noGroup && g.main(last) {
		g.outs[at][""] = wired{Output: Output{Node: last}}
	}
}

// lastOf is the last transform of a group that is a chain.
func (g *graph) lastOf(group int) int {
	if g.all[group].typ != chainGroup {
		return noGroup
	}
	return slices.IndexFunc(g.all, func(w wiring) bool { return w.in == group && w.chained && w.last })
}

// resolve finds what a name means inside a group, or says what is wrong with it.
func (g *graph) resolve(in int, name string) (r wired, wrong, hint string) {
	node, known := g.names[in][name]
	output := ""
	if dot := strings.LastIndexByte(name, '.'); !known && dot > 0 {
		node, known = g.names[in][name[:dot]]
		output = name[dot+1:]
	}
	if !known {
		return g.groupInput(in, name)
	}
	switch from := &g.all[node]; {
	case output != "" && !slices.Contains(g.named(node), output):
		return r, fmt.Sprintf("`%s` has no output `%s`", from.label(), output), suggest.Hint(output, g.named(node))
	case from.writes():
		return r, fmt.Sprintf("`%s` writes files, and outputs no rows", from.label()), "use its own input instead"
	case output == "" && !g.main(node):
		if from.group() && len(g.named(node)) == 0 {
			return r, fmt.Sprintf("`%s` outputs no rows", from.label()), "write `output: NAME` in it"
		}
		return r, fmt.Sprintf("`%s` has only named outputs", from.label()), suggest.Hint("", g.qualified(node))
	}
	return wired{Output: Output{Node: node, Name: output}}, "", ""
}

// groupInput finds what a name means that no transform in a group has: an input of the group.
func (g *graph) groupInput(in int, name string) (r wired, wrong, hint string) {
	if in != noGroup {
		w := &g.all[in]
		r = wired{Output: Output{Node: in}, inside: true, input: slices.Index(w.inputNames, name)}
		if r.input >= 0 || name == "input" && len(w.inputNames) == 0 {
			if !g.given(in) {
				return r, fmt.Sprintf("`%s` gets no rows", w.label()), g.suggestGiving(in)
			}
			return r, "", ""
		}
	}
	what := "this step"
	if in != noGroup {
		what = "`" + g.all[in].label() + "`"
	}
	return r, fmt.Sprintf("there is no transform `%s` in %s", name, what), g.nearest(in, name)
}

// follow finds the transforms whose rows come to one, through groups.
func (g *graph) follow(at int) {
	var through func(r wired, input, depth int)
	through = func(r wired, input, depth int) {
		if r.Node == noGroup {
			return // reported where it was named
		}
		switch w := &g.all[r.Node]; {
		case !w.group():
			g.from[at] = append(g.from[at], edge{r.Output, input})
		case depth > len(g.all):
			g.report(r.Node, -1, "cycle", "", "`%s` takes rows from itself", w.label())
		case !r.inside:
			for name, out := range g.outs[r.Node] {
				if name == r.Name || r.Name == "" && len(w.outputs) == 1 {
					through(out, input, depth+1)
				}
			}
		default:
			for i, from := range g.refs[r.Node] {
				if r.input == allInputs || r.input == i {
					through(from, input, depth+1)
				}
			}
		}
	}
	for i, r := range g.refs[at] {
		through(r, i, 0)
	}
}
