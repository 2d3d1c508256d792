package dsl

import (
	"strings"

	"github.com/sluiceml/sluice/dsl/spec"
)

// Targets returns the targets that the pipeline's own rollouts release to, each with the first step in the document that does so.
func (p *Program) Targets() map[string]string {
	used := map[string]string{}
	for _, s := range p.steps {
		if rollout, ok := s.known.(*spec.Rollout); ok && used[rollout.Target] == "" {
			used[rollout.Target] = s.ID
		}
	}
	return used
}

// Programs returns the programs that the worker looks for in its PATH, each with the first step in the document that starts it. Programs
// that are files of the workspace, or known only during the run, are not included.
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
