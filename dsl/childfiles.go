package dsl

import (
	"slices"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/dsl/transform"
)

// namedFiles are the workspace files that the steps of a pipeline name, and those of its children.
func (c *checker) namedFiles() []string {
	var files []string
	for _, s := range c.steps {
		switch spec := s.known.(type) {
		case interface{ WorkspaceFiles() []string }:
			files = append(files, spec.WorkspaceFiles()...)
		case *spec.Clean:
			programs, _ := transform.Execs(spec) // what is wrong with them is reported, and they run nowhere
			files = append(files, transform.ProgramFiles(programs)...)
			if spec.Runtime.Python != "" {
				files = append(files, spec.Runtime.Python)
			}
		case *spec.ChildPipeline:
			if child := c.compiled[s]; child != nil {
				files = append(files, child.files...)
			}
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// childFiles are what steps that run children depend on: all files, and those besides that steps of the child name, which may be the
// documents of this run.
func (c *checker) childFiles() map[string][]string {
	all := map[string][]string{}
	for s, child := range c.compiled {
		if len(child.files) > 0 {
			all[s.ID] = append([]string{"."}, child.files...)
		}
	}
	return all
}
