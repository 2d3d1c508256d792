package transform

import (
	"cmp"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/inputpath"
	"github.com/sluiceml/sluice/dsl/spec"
)

// Cleaning is a clean step as it stands in a document: the graph that its transforms make, or what is wrong with it.
type Cleaning struct {
	*graph
	body   *yaml.Node
	nodes  []*yaml.Node
	counts Counts       // once they were asked for
	told   map[int]bool // the writers of another format than is read, once that was reported
}

// ReadCleaning resolves the graph of a clean step's transforms.
func ReadCleaning(body *yaml.Node) *Cleaning {
	nodes, all := transformNodes(body)
	return &Cleaning{graph: resolveGraph(all), body: body, nodes: nodes, told: map[int]bool{}}
}

// Check demands transforms that are right each by itself, and a graph in which all rows go from files to files.
func (g *Cleaning) Check(r document.Reporter, in StepFacts) {
	list := document.Lookup(g.body, "transforms")
	if list == nil {
		r.Errorf(g.body, "required", "write `read`, `transforms` and `write`, or `transforms` alone", "`transforms` is missing")
	}
	if list == nil || list.Kind != yaml.SequenceNode {
		return
	}
	if len(list.Content) == 0 {
		r.Errorf(list, "chain", "begin with a ReadFrom... and end with a WriteTo...", "there are no transforms")
		return
	}
	names := map[string]int{}
	for i, n := range g.nodes {
		typ := document.Lookup(n, "type")
		if typ == nil {
			continue
		}
		checkConfig(r, in, typ.Value, document.Lookup(n, "config"))
		label, at := g.all[i].label(), cmp.Or(document.Lookup(n, "name"), typ)
		if line, twice := names[label]; twice && (g.all[i].name != "" || !g.brokenChain(i)) {
			r.Errorf(at, "duplicate", "give it a unique `name`: rows are counted under it", "the transform on line %d is already named `%s`", line, label)
			continue
		}
		names[label] = at.Line
	}
	g.checkGraph(r)
	g.checkContaminated(r)
}

// brokenChain reports whether a transform, or another of its type, is where it cannot be in a chain: that there are two is not the mistake.
func (g *Cleaning) brokenChain(at int) bool {
	return slices.ContainsFunc(g.errors, func(e graphError) bool { return e.code == "chain" && g.all[e.at].typ == g.all[at].typ })
}

// checkConfig checks the config of a transform: what is of its type, and what transforms have in common.
func checkConfig(r document.Reporter, in StepFacts, typ string, config *yaml.Node) {
	if t, ok := Config(typ).(Checker); ok {
		t.Check(r, in, config)
	}
	checkErrorHandling(r, document.Lookup(config, "error_handling"))
	if IsReader(typ) && Config(typ) != nil {
		checkPatterns(r, document.Lookup(config, "path"), endingOf(typ))
		checkFormat(r, typ, config, document.Lookup(config, "path"))
		checkPacked(r, typ, document.Lookup(config, "path"))
	}
}

// checkFormat warns of files that a transform of a type reads, and that have the ending of another format.
func checkFormat(r document.Reporter, typ string, config, paths *yaml.Node) {
	for n := range document.Scalars(paths) {
		ending := fileEnding(n.Value)
		other, known := readers[ending]
		switch {
		case !known || Is[ReadFromText](typ) || Is[ReadFromText](other.transform):
		case other.transform != typ:
			r.Warnf(n, "file-format", "read them with "+other.transform, "`%s` are read with %s, which reads other files", n.Value, typ)
		case other.key == "delimiter" && document.Lookup(config, "delimiter") == nil:
			r.Warnf(n, "file-format", "add `delimiter: \"\\t\"`", "the values of `%s` are separated by tabs, and %s looks for commas", n.Value, typ)
		}
	}
}

// checkPacked reports compressed files that a transform cannot read: of a Parquet or an Avro file, the content is compressed, not the file.
func checkPacked(r document.Reporter, typ string, paths *yaml.Node) {
	if !Is[ReadFromParquet](typ) && !Is[ReadFromAvro](typ) {
		return
	}
	for n := range document.Scalars(paths) {
		if _, packed := fileEndings(n.Value); packed != "" {
			r.Errorf(n, "file-format", "decompress the files first; Parquet and Avro files are compressed inside, by an option of the program that writes them",
				"%s cannot read files that end with %s", typ, packed)
		}
	}
}

// checkContaminated warns of rows that are compared with themselves: where one transform alone reads, all come from there.
func (g *Cleaning) checkContaminated(r document.Reporter) {
	var read []string
	readers := 0
	for i, n := range g.nodes {
		if IsReader(g.all[i].typ) {
			readers++
			read = valuesBelow(document.Lookup(n, "config", "path"))
		}
	}
	for i, n := range g.nodes {
		if !Is[Decontaminate](g.all[i].typ) || readers != 1 {
			continue
		}
		for at := range document.Scalars(document.Lookup(n, "config", "against")) {
			if slices.Contains(read, at.Value) {
				r.Warnf(at, "path", "name the files of the held-out rows", "the rows are compared with themselves, and all that have enough words are dropped")
			}
		}
	}
}

// checkGraph reports what is wrong with the graph.
func (g *Cleaning) checkGraph(r document.Reporter) {
	if typ := document.Lookup(g.body, "type"); typ != nil && typ.Value == compositeGroup {
		noChain(r, g.body)
	}
	if len(g.all) > maxTransforms {
		r.Errorf(g.body, "limit", "", "%s", errTransforms)
	}
	for _, e := range g.errors {
		if g.hasUnknown() && (e.code == "rows-from" || e.code == "unused-rows" || e.code == "chain" && Config(g.all[e.at].typ) == nil) {
			continue // what there is not takes and gives nothing that is known
		}
		r.Errorf(graphErrorNode(g.nodes[e.at], e), e.code, e.hint, "%s", e.message)
	}
}

// hasUnknown reports whether there is no transform of one of the types.
func (g *Cleaning) hasUnknown() bool {
	return slices.ContainsFunc(g.all, func(w wiring) bool { return w.typ != "" && !w.group() && Config(w.typ) == nil })
}

// ReadsVariables reports whether a clean step has a transform that reads the step's variables under `env` or `secrets`.
func ReadsVariables(body *yaml.Node, key string) bool {
	all, _ := transformNodes(body)
	return slices.ContainsFunc(all, func(n *yaml.Node) bool {
		typ := document.Lookup(n, "type")
		return typ != nil && (Is[Exec](typ.Value) || Is[MaskPII](typ.Value) && key == "secrets" && document.Lookup(n, "config", "key") != nil)
	})
}

// InPlace are the patterns of the files that a resolved cleaning reads where they are, not in its inputs, sorted. It is an error if a path
// leaves the folder of an input: what is there is not kept with the run.
func InPlace(sp *spec.Clean) ([]string, error) {
	readsFiles := func(typ string) bool { return IsReader(typ) || Is[Decontaminate](typ) }
	configs, labels, err := configsOf[struct{ Path, Against spec.Paths }](sp, readsFiles)
	if err != nil {
		return nil, err
	}
	var all []string
	for i, config := range configs {
		for _, pattern := range slices.Concat(config.Path, config.Against) {
			switch {
			case !inputpath.IsIn(pattern):
				all = append(all, pattern)
			case !inputpath.Within(pattern):
				return nil, fmt.Errorf("transform %s: the path %q leaves the folder of its input", labels[i], pattern)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}
