package dsl

import (
	"encoding/json"
	"reflect"
	"slices"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/internal/objectstore"
)

func cleanOutputs(ts *expr.TypeSystem, _ string, _ *spec.Clean) expr.ObjectType {
	t := reflect.TypeFor[spec.CleanOutput]()
	return expr.ObjectType{
		Fields: ts.StructFields(t), Optional: expr.OptionalFields(t),
		Zeros: map[string]json.RawMessage{"rules": json.RawMessage(`{"dropped":0}`), "reasons": json.RawMessage("0")},
	}
}

// checkClean demands a graph in which all rows go from files to files.
func checkClean(c *checker, s *step, spec *spec.Clean) {
	c.checkCleanPlace(s, spec)
	facts := transform.StepFacts{Workspace: c.ws}
	for variable := range document.Entries(s.node, "secrets") {
		facts.Secrets = append(facts.Secrets, variable.Value)
	}
	slices.Sort(facts.Secrets)
	if !slices.Contains(c.d.MeantKeys(s.body), "read") { // else the first transform is missing, and it was told why
		c.graphOf(s).Check(c.src, facts)
	}
}

// graphOf resolves the graph of a clean step's transforms, once.
func (c *checker) graphOf(s *step) *transform.Cleaning {
	known, ok := c.cleanings[s]
	if !ok {
		known = transform.ReadCleaning(s.body)
		c.cleanings[s] = known
	}
	return known
}

// notOnNodesWhy is what is wrong with a path of which notOnNodes is true.
const notOnNodesWhy = "a node of a pool has no files but the step's inputs: hand it on from a `run` step, or put it into a bucket"

// notOnNodes reports whether a path is one of the worker's machine.
func notOnNodes(path string) bool { return !objectstore.IsAddress(path) }

// checkCleanPlace checks where the step runs, and that what it reads is there.
func (c *checker) checkCleanPlace(s *step, clean *spec.Clean) {
	checkPlacement(c, s, clean.Train())
	if !s.onPool() {
		c.refuseRuntime(s)
		if c.env != nil {
			checkWithinLimits(c, s, spec.Resources{Memory: c.env.Clean.Memory})
		}
		return
	}
	c.checkPoolPython(s, clean.Runtime.Python)
	paths, _ := transform.InPlace(clean) // a transform that cannot be read is reported by its own check
	for _, path := range paths {
		if path != "" && notOnNodes(path) { // one with an expression is empty, and checked when it is known
			c.src.Errorf(s.kindKey(), "pool", "hand the files on from a `run` step, or put them into a bucket",
				"`%s` reads %q on a node of a pool, which has no files but the step's inputs", s.ID, path)
		}
	}
}

// refuseRuntime reports a runtime of a step that runs beside the worker.
func (c *checker) refuseRuntime(s *step) {
	if document.Lookup(s.body, "runtime") != nil {
		c.src.Errorf(document.KeyNode(s.body, "runtime"), "pool", "name a `pool`, or remove it", "`%s` runs beside the worker, with the worker's own environment", s.ID)
	}
}

// checkPoolPython checks the requirements file of a step on a pool; empty for none.
func (c *checker) checkPoolPython(s *step, file string) {
	if c.ws != nil && file != "" {
		c.checkFile(s, file, "runtime", "python")
		c.readRequirements(document.Lookup(s.body, "runtime", "python"), file)
	}
}
