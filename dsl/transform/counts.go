package transform

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/internal/suggest"
)

// Counts are the names that a cleaning counts by, under each of its outputs that counts by name, as far as they are known before it runs.
type Counts map[string]*KnownNames

// KnownNames are the names of what is counted under one output: all of them, or what they begin with.
type KnownNames struct{ Names, Prefixes []string }

// Has reports whether something may be counted under a name.
func (n *KnownNames) Has(name string) bool {
	return slices.Contains(n.Names, name) || slices.ContainsFunc(n.Prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// Counter is a transform's config that counts by more than its own name and the reasons why rows are rejected.
type Counter interface {
	// Counts adds the names that the transform with a label counts by.
	Counts(to Counts, label string, config *yaml.Node)
}

func (c Counts) add(output string, names ...string) {
	c[output].Names = append(c[output].Names, names...)
}

func (c Counts) addPrefix(output, prefix string) {
	c[output].Prefixes = append(c[output].Prefixes, prefix)
}

var cleaned = regexp.MustCompile(`^\$\{ *steps\.(\w+)\.dataset *\}$`)

// CleanedBy returns the step whose dataset a value is, if that is all that the value says; a cleaning has such an output, and others may.
func CleanedBy(value string) (step string) {
	if m := cleaned.FindStringSubmatch(value); m != nil {
		return m[1]
	}
	return ""
}

// CheckReader reports a mapping that reads JSON lines of a `split` of this dataset, named at a place, when the cleaning in the step id does
// not write it so.
func (g *Cleaning) CheckReader(r document.Reporter, reader, at *yaml.Node, id, byDefault string) {
	split, place := byDefault, at
	if n := document.Lookup(reader, "split"); n != nil {
		split, place = n.Value, n
	}
	if len(g.errors) > 0 || strings.Contains(split, "${") {
		return
	}
	var splits []string
	for i := range g.all {
		switch w := &g.all[i]; {
		case !w.writes():
		case !slices.Contains(g.parts(i), split):
			splits = append(splits, g.parts(i)...)
		case !Is[WriteToJSON](w.typ) && g.told[i]: // once, for all that read it
			return
		case !Is[WriteToJSON](w.typ):
			g.told[i] = true
			line := strconv.Itoa(document.Lookup(g.nodes[i], "type").Line)
			r.Errorf(at, "file-format", "write JSON lines in line "+line+": `write: json`, or WriteToJson in the transforms", "only JSON lines can be read here, and `%s` writes the split `%s` with %s", id, split, w.typ)
			return
		default:
			return
		}
	}
	r.Errorf(place, "output", suggest.Hint(split, splits), "`%s` writes no split `%s`", id, split)
}

// writtenEndings are how the names of files end that writers write.
var writtenEndings = map[string]string{
	TypeOf[WriteToJSON](): ".jsonl", TypeOf[WriteToCSV](): ".csv", TypeOf[WriteToText](): ".txt", TypeOf[WriteToParquet](): ".parquet", TypeOf[WriteToAvro](): ".avro",
}

// Lacks says why nothing is at a path in this dataset, which the cleaning in the step id writes; no code where something may be.
func (g *Cleaning) Lacks(inside, id string) (code, hint, message string) {
	if len(g.errors) > 0 {
		return
	}
	var folders, endings []string
	for i := range g.all {
		if g.all[i].writes() {
			folders, endings = append(folders, g.parts(i)...), append(endings, writtenEndings[g.all[i].typ])
		}
	}
	segments := strings.Split(strings.TrimSuffix(inside, "/"), "/")
	plain := segments[:slices.IndexFunc(append(segments, "*"), func(s string) bool { return !plainName.MatchString(s) })]
	prefix, ending := strings.Join(plain, "/"), fileEnding(inside)
	_, isData := readers[ending]
	isIn := func(folder string) bool {
		return prefix == folder || strings.HasPrefix(folder, prefix+"/") || strings.HasPrefix(prefix, folder+"/")
	}
	switch {
	case prefix != "" && !slices.ContainsFunc(folders, isIn):
		return "output", suggest.Hint(prefix, folders), "`" + id + "` writes no split `" + prefix + "`"
	case isData && !slices.Contains(endings, ending):
		return "file-format", "its files end with " + strings.Join(slices.Compact(endings), ", "), "`" + id + "` writes no files that end with " + ending
	case isData && len(segments) == 1 && !strings.Contains(inside, "**"):
		return "output", "name the folder, such as " + folders[0] + "/*" + ending, "`" + id + "` writes a folder for each split, and no files beside them"
	}
	return
}

// Counts are the names that a cleaning counts by; nil when its transforms are not right.
func (g *Cleaning) Counts() Counts {
	if len(g.errors) > 0 || g.hasUnknown() || g.counts != nil {
		return g.counts
	}
	counts := Counts{"rules": {}, "reasons": {}, "splits": {}, "masked": {}, "profiles": {}}
	for at := range g.all {
		w := &g.all[at]
		counts.addPrefix("reasons", w.label()+"/")
		if transforms[w.typ].drops {
			counts.add("rules", w.label())
		}
		if t, ok := Config(w.typ).(Counter); ok {
			t.Counts(counts, w.label(), document.Lookup(g.nodes[at], "config"))
		}
		if w.writes() {
			counts.add("splits", g.parts(at)...)
		}
	}
	g.counts = counts
	return counts
}
