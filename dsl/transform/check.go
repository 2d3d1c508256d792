package transform

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// StepFacts are what is asked of the step that transforms are in, when these are checked.
type StepFacts struct {
	// Secrets are the variables under the step's `secrets`, sorted.
	Secrets []string
	// Workspace is the pipeline's folder; nil: files are not looked for.
	Workspace document.Workspace
}

// Checker is a transform's config that must meet more than its form says.
type Checker interface {
	// Check reports what is wrong with a config, which is nil when there is none.
	Check(r document.Reporter, in StepFacts, config *yaml.Node)
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)

// checkPlainName demands a name that can be one of a folder, and that stands after a dot.
func checkPlainName(r document.Reporter, n *yaml.Node, what string) {
	if n = document.Unalias(n); n != nil && n.Kind == yaml.ScalarNode && !plainName.MatchString(n.Value) {
		r.Errorf(n, "name", "use letters, digits, - and _", "%q is not a valid name for %s", n.Value, what)
	}
}

// inputFolder matches the path of an input with nothing behind it, which is a folder.
var inputFolder = regexp.MustCompile(`^\$\{\s*inputs\.\w+\.path\s*\}/*$`)

// folderRead reports that an input is read itself, and not the files in it, whose names have the ending.
func folderRead(r document.Reporter, n *yaml.Node, ending string) {
	r.Errorf(n, "path", fmt.Sprintf("name the files in it: \"%s/*%s\"", strings.TrimRight(n.Value, "/"), ending), "`%s` is a folder", n.Value)
}

// checkPatterns demands patterns of paths that something can match; ending is that of the files in a hint.
func checkPatterns(r document.Reporter, paths *yaml.Node, ending string) {
	checkNotEmpty(r, paths)
	for n := range document.Scalars(paths) {
		scheme, rest, isURL := strings.Cut(n.Value, "://")
		switch {
		case n.Value == "":
			r.Errorf(n, "required", "for example data/*.jsonl", "the path is empty")
			continue
		case inputFolder.MatchString(n.Value):
			folderRead(r, n, ending)
			continue
		case isURL && scheme != "s3" && scheme != "gs":
			r.Errorf(n, "path", "fetch it in a `run` step, and use that step's output as an input", "rows are read from files, s3:// and gs://, not from %s://", scheme)
			continue
		case strings.HasPrefix(n.Value, "${inputs.") && slices.Contains(strings.Split(n.Value, "/"), ".."):
			r.Errorf(n, "path", "remove `..`, and read files of that output only, or add the output that has them to `inputs`", "`%s` leaves the folder of the input", n.Value)
			continue
		case isURL:
			rest, _, _ = strings.Cut(rest, "?")
		default:
			rest = n.Value
		}
		for segment := range strings.SplitSeq(rest, "/") {
			if _, err := path.Match(segment, ""); err != nil && !strings.Contains(segment, "${") {
				r.Errorf(n, "path", "write [[] for a literal bracket", "`%s` is not a valid pattern: a bracket is not closed", segment)
			}
		}
	}
}

// valuesBelow are the texts of the scalars at and below a node.
func valuesBelow(n *yaml.Node) (values []string) {
	for at := range document.Scalars(n) {
		values = append(values, at.Value)
	}
	return values
}

// checkNotEmpty reports a list that has nothing in it.
func checkNotEmpty(r document.Reporter, n *yaml.Node) {
	if n != nil && n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		r.Errorf(n, "required", "", "the list is empty")
	}
}

// ErrorKeys are what all transforms have that reject rows.
type ErrorKeys struct {
	// ErrorHandling is what happens to rejected rows. Default: they go to the dead letter, in any number.
	ErrorHandling *ErrorHandling `json:"error_handling,omitempty"`
}

// ReadKeys are what all transforms have that read files.
type ReadKeys struct {
	// OnUnreadable: fail (default) fails the step if a file, or the rest of it, cannot be read, because it is corrupt, cut off, or of another
	// format. reject counts the rows that are lost as rejected (damaged): as many as the footer of a Parquet file tells, else one for each place
	// from which a file cannot be read.
	OnUnreadable string `json:"on_unreadable,omitempty" dsl:"enum=fail|reject"`
	// Filename is the name of a field for the name of the row's file, in place of a field of that name. Default: none.
	Filename string `json:"filename,omitempty"`
	ErrorKeys
}

// Read returns the keys, which the configs of all transforms that read files embed.
func (k ReadKeys) Read() ReadKeys { return k }

// named returns a shape with the field for the file's name.
func (ReadKeys) named(in Shape, config *yaml.Node) Shape {
	if name := document.TextAt(config, "filename"); name != "" {
		return in.with(name, cel.StringType)
	}
	return in
}

// partitioned returns a shape with more fields, if the files may be in folders such as year=2024.
func (k ReadKeys) partitioned(in Shape, config *yaml.Node) Shape {
	for n := range document.Scalars(document.Lookup(config, "path")) {
		if folder := path.Dir(n.Value); in.Rest != cel.DynType && strings.ContainsAny(folder, "=*?[") {
			in.Rest = cel.DynType
		}
	}
	return k.named(in, config)
}

// ErrorHandling says what becomes of the rows that a transform rejects, and how many it may. One of its keys must be there.
type ErrorHandling struct {
	// Output is the name of an output for the rejected rows, which then do not go to the dead letter. They have the fields element, reason,
	// message, source and offset. Another transform must take them, with `input: NAME.OUTPUT`.
	Output string `json:"output,omitempty" dsl:"literal"`
	// Threshold is the largest share of its input rows that the transform may reject; above it the step fails. Sluice checks it at the end,
	// and continuously from 1000 rows on, so that a hopeless run ends early: remove known bad rows with a Filter first. Default: any
	// number.
	Threshold *spec.Share `json:"threshold,omitempty"`
}

func checkErrorHandling(r document.Reporter, n *yaml.Node) {
	if n == nil || n.Kind != yaml.MappingNode {
		return
	}
	output := document.Lookup(n, "output")
	if output == nil && document.Lookup(n, "threshold") == nil {
		r.Errorf(n, "required", "write `output`, `threshold` or both", "`error_handling` is empty")
	}
	checkPlainName(r, output, "an output")
}
