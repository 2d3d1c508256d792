package transform

import (
	"maps"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/internal/suggest"
)

// main reports whether a transform has rows that are in no named output; a group's only output is meant also without its name.
func (g *graph) main(at int) bool {
	w := &g.all[at]
	if !w.group() {
		return !w.writes() && !Is[Partition](w.typ)
	}
	if len(w.outputs) == 0 {
		last := g.lastOf(at)
		return last != noGroup && g.main(last)
	}
	return len(w.outputs) == 1
}

// named lists a transform's named outputs.
func (g *graph) named(at int) []string {
	w := &g.all[at]
	var names []string
	for _, out := range w.outputs {
		if out.name != "" {
			names = append(names, out.name)
		}
	}
	if Is[Partition](w.typ) {
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

// maxHints is for how many errors the nearest of all names is looked for.
const maxHints = 100

// nearest is a hint for an input, inside a group, that names nothing.
func (g *graph) nearest(in int, name string) string {
	if len(g.errors) >= maxHints {
		return ""
	}
	var names []string
	for i := range g.all {
		if g.all[i].in != in {
			continue
		}
		if g.main(i) {
			names = append(names, g.all[i].local())
		}
		names = append(names, g.qualified(i)...)
	}
	if in != noGroup && g.given(in) {
		names = append(names, g.all[in].inputNames...)
		if len(g.all[in].inputNames) == 0 {
			names = append(names, "input")
		}
	}
	return suggest.Hint(name, names)
}

func (g *graph) qualified(at int) []string {
	var names []string
	for _, name := range g.named(at) {
		names = append(names, g.all[at].local()+"."+name)
	}
	return names
}

// suggestInput is a hint for a transform that names no input.
func (g *graph) suggestInput(at int) string {
	if at == 0 || g.all[at-1].in != g.all[at].in || !g.main(at-1) {
		return "write `input: NAME` beside its type"
	}
	return "write `input: " + g.all[at-1].local() + "` beside its type"
}

// suggestGiving is a hint for a group that needs rows and is given none.
func (g *graph) suggestGiving(group int) string {
	if g.all[group].chained {
		return "begin the chain with a transform that reads (ReadFrom...)"
	}
	return g.suggestInput(group)
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
			back := slices.IndexFunc(g.from[at], func(from edge) bool { return from.Node == loop[1] })
			g.report(at, g.from[at][back].input, "cycle", "", "`%s` takes rows from itself: %s", g.all[at].label(), strings.Join(names, " <- "))
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
		if !g.all[at].group() {
			visit(at)
		}
	}
}

// checkSplits demands that a Split is followed by what writes, which takes nothing else.
func (g *graph) checkSplits() {
	for at, list := range g.from {
		for _, from := range list {
			switch {
			case !Is[Split](g.all[from.Node].typ):
			case Is[Split](g.all[at].typ):
				g.report(at, g.written(at, from), "chain", "remove one of them", "only a transform that writes may follow a Split")
			case !g.all[at].writes():
				g.report(at, g.written(at, from), "chain", "move it before the Split", "only a transform that writes may follow a Split")
			case len(list) > 1:
				g.report(at, g.written(at, from), "chain", "write the other rows with a transform of their own",
					"`%s` writes the parts of `%s`, and cannot take other rows", g.all[at].label(), g.all[from.Node].label())
			}
		}
	}
}

// written is the number of an input if it is written, and else -1.
func (g *graph) written(at int, from edge) int {
	if g.all[at].chained {
		return -1
	}
	return from.input
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
	used := map[Output]bool{}
	for _, list := range g.from {
		for _, from := range list {
			used[from.Output] = true
		}
	}
	said := map[Output]bool{}
	for at := range g.all {
		w := &g.all[at]
		if w.typ == "" || w.group() {
			continue
		}
		if g.main(at) && !used[Output{Node: at}] {
			g.unused(g.offered(Output{Node: at}), said)
		}
		for _, output := range g.named(at) {
			if !used[Output{at, output}] {
				g.unused(g.offered(Output{at, output}), said)
			}
		}
	}
}

// offered is the output of the outermost group that hands on an output, or else that itself.
func (g *graph) offered(out Output) Output {
	for in := g.all[out.Node].in; in != noGroup; in = g.all[in].in {
		name, ok := "", false
		for as, of := range g.outs[in] {
			if of.Output == out && !of.inside && (!ok || as < name) {
				name, ok = as, true
			}
		}
		if !ok {
			break
		}
		out = Output{in, name}
	}
	return out
}

// unused reports rows that nothing takes, once.
func (g *graph) unused(out Output, said map[Output]bool) {
	w := &g.all[out.Node]
	if said[out] {
		return
	}
	said[out] = true
	if slices.Contains(g.meant, "did you mean `"+strings.TrimSuffix(w.local()+"."+out.Name, ".")+"`?") {
		return // told of where it is misspelt
	}
	switch name := w.local() + "." + out.Name; {
	case slices.Contains(g.misread, w.local()), out.Name != "" && slices.Contains(g.misread, out.Name): // an input that is wrong likely means these
	case out.Name != "":
		g.report(out.Node, -1, "unused-rows", "name `"+name+"` as the `input` of a transform", "the rows of `%s` are not used", w.prefix+name)
		g.errors[len(g.errors)-1].output = out.Name
	case w.chained && !w.last: // the next takes them, unless something is wrong with it
	case w.chained && w.first && !w.reads() && !w.group(): // which was said of it as the first
	case w.chained && w.in == noGroup:
		g.report(out.Node, -1, "chain", "add a writer at its end, such as {type: WriteToJson}", "the last transform must write (WriteTo...), and `%s` does not", w.typ)
	default:
		hint := "write them with a WriteTo..., or name `" + w.local() + "` as an `input`"
		if w.in != noGroup {
			hint += " or as the `output` of `" + g.all[w.in].label() + "`"
		}
		g.report(out.Node, -1, "unused-rows", hint, "the rows of `%s` are not used", w.label())
	}
}
