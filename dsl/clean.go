package dsl

import (
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
)

// transformChecker is a transform's config that must meet more than its form says.
type transformChecker interface {
	// The config is nil when there is none.
	checkTransform(c *checker, s *step, config *yaml.Node)
}

// checkTransform demands that the shares of a split are the whole.
func (Split) checkTransform(c *checker, _ *step, config *yaml.Node) {
	parts := document.Lookup(config, "parts")
	if parts == nil || parts.Kind != yaml.MappingNode {
		return
	}
	var sum float64
	for i := 1; i < len(parts.Content); i += 2 {
		c.checkPlainName(parts.Content[i-1], "a folder of the dataset")
		share, err := spec.ParseShare(parts.Content[i].Value)
		if err != nil {
			return // reported where it stands
		}
		if share <= 0 {
			c.src.Errorf(parts.Content[i], "share", "", "`%s` must have more than 0%%", parts.Content[i-1].Value)
		}
		sum += float64(share)
	}
	if math.Abs(sum-1) > 1e-9 {
		c.src.Errorf(parts, "share", "", "the parts add up to %s, not to 100%%", spec.Share(sum))
	}
}

// cleanReads reports whether a clean step has a transform that reads the step's variables under `env` or `secrets`.
func cleanReads(s *step, key string) bool {
	all, _ := transformNodes(s.body)
	return slices.ContainsFunc(all, func(n *yaml.Node) bool {
		typ := document.Lookup(n, "type")
		return typ != nil && (typ.Value == "Exec" || typ.Value == "MaskPII" && key == "secrets" && document.Lookup(n, "config", "key") != nil)
	})
}

func cleanOutputs(ts *expr.TypeSystem, _ string, _ *spec.Clean) map[string]*cel.Type {
	return ts.StructFields(reflect.TypeFor[spec.CleanOutput]())
}

// checkClean demands a graph in which all rows go from files to files.
func checkClean(c *checker, s *step, _ *spec.Clean) {
	list := document.Lookup(s.body, "transforms")
	if list == nil {
		c.src.Errorf(s.body, "required", "write `read`, `transforms` and `write`, or `transforms` alone", "`transforms` is missing")
	}
	if list == nil || list.Kind != yaml.SequenceNode {
		return
	}
	if len(list.Content) == 0 {
		c.src.Errorf(list, "chain", "begin with a ReadFrom... and end with a WriteTo...", "there are no transforms")
		return
	}
	g := c.graphOf(s)
	names := map[string]int{}
	for i, n := range g.nodes {
		typ := document.Lookup(n, "type")
		if typ == nil {
			continue
		}
		config := document.Lookup(n, "config")
		if t, ok := transformSpecs[typ.Value].(transformChecker); ok {
			t.checkTransform(c, s, config)
		}
		c.checkErrorHandling(document.Lookup(config, "error_handling"))
		if strings.HasPrefix(typ.Value, "ReadFrom") {
			c.checkPatterns(document.Lookup(config, "path"))
		}
		label, at := g.all[i].label(), typ
		if name := document.Lookup(n, "name"); name != nil {
			at = name
		}
		if line, twice := names[label]; twice {
			c.src.Errorf(at, "duplicate", "give it a `name` of its own: rows are counted under it", "a transform in line %d is already called `%s`", line, label)
			continue
		}
		names[label] = at.Line
	}
	c.checkGraph(s)
}
