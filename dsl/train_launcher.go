package dsl

import (
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// checkLauncher reports launchers that start the ranks of one node where there are several.
func (spec *Train) checkLauncher(c *checker, s *step) {
	if max(spec.Nodes.Min, spec.Nodes.Max) <= 1 {
		return
	}
	if spec.Launcher == LauncherMPI {
		c.src.errorf(lookup(s.body, "launcher"), "launcher", "ask for one node with more `gpu` or `cpu`: each is a rank; or use torchrun",
			"mpi starts the ranks of one node: on others it would need an SSH server")
	}
	words := literalWords(lookup(s.body, "command"))
	if starts := torchrunIn(words); starts != "" && !meetsOthers(words, s) {
		c.src.errorf(lookup(s.body, "command"), "launcher", "write `launcher: torchrun`, and the script alone as the command: [python3, train.py]",
			"`%s` starts a world of its own on each node of `%s`: every node would train a model of its own", starts, s.ID)
	}
}

// literalWords are the words of a command as they are written.
func literalWords(command *yaml.Node) []string {
	var words []string
	if command != nil && command.Kind == yaml.SequenceNode {
		for _, n := range command.Content {
			words = append(words, behindAlias(n).Value)
		}
	}
	return words
}

// torchrunIn returns how a command starts torchrun, or nothing.
func torchrunIn(words []string) string {
	if len(words) == 0 {
		return ""
	}
	if path.Base(words[0]) == "torchrun" {
		return "torchrun"
	}
	i := slices.Index(words, "-m")
	if i < 1 || i+1 == len(words) || !strings.HasPrefix(path.Base(words[0]), "python") {
		return ""
	}
	if module := words[i+1]; module == "torch.distributed.run" || module == "torch.distributed.launch" {
		return "python -m " + module
	}
	return ""
}

// meetsOthers reports whether a torchrun is told where the other nodes are.
func meetsOthers(words []string, s *step) bool {
	for _, word := range words {
		option := strings.ReplaceAll(strings.TrimLeft(word, "-"), "_", "-")
		if strings.HasPrefix(word, "--") && (strings.HasPrefix(option, "rdzv-endpoint") || strings.HasPrefix(option, "master-addr")) {
			return true
		}
	}
	env, _ := s.env.(entries)
	return slices.Contains(env.keys, "PET_RDZV_ENDPOINT") || slices.Contains(env.keys, "PET_MASTER_ADDR")
}
