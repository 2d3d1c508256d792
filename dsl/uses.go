package dsl

import (
	"strings"

	"github.com/sluiceml/sluice/dsl/spec"
)

// Targets says of each target that the pipeline's own rollouts release to which step is the first in the document to do so.
func (p *Program) Targets() map[string]string {
	used := map[string]string{}
	for _, s := range p.steps {
		if rollout, ok := s.known.(*spec.Rollout); ok && used[rollout.Target] == "" {
			used[rollout.Target] = s.ID
		}
	}
	return used
}

// Programs says of each program that the worker itself looks for in its PATH which step is the first in the document to start it. A
// program that is a file of the workspace, or known only in the run, is not among them.
func (p *Program) Programs() map[string]string {
	used := map[string]string{}
	for _, s := range p.steps {
		if s.onPool() {
			continue
		}
		var command []string
		switch known := s.known.(type) {
		case *spec.Run:
			if command = known.Command.Command; known.Script != "" {
				command = []string{"bash"}
			}
		case *spec.Evaluate:
			command = known.Command.Command
		}
		if len(command) > 0 && command[0] != "" && !strings.ContainsAny(command[0], "/$") && used[command[0]] == "" {
			used[command[0]] = s.ID
		}
	}
	return used
}
