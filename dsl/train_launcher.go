package dsl

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/shell"
	"github.com/sluiceml/sluice/dsl/spec"
)

// checkLauncher reports launchers that start the ranks of one node where there are several.
func checkLauncher(sp *spec.Train, c *checker, s *step) {
	if max(sp.Nodes.Min, sp.Nodes.Max) <= 1 {
		checkTwoLaunchers(sp, c, document.Lookup(s.body, "command"))
		return
	}
	if sp.Launcher == spec.LauncherMPI {
		c.src.Errorf(document.Lookup(s.body, "launcher"), "launcher", "use one node with more `gpu` or `cpu`, each of which is a rank; or use torchrun",
			"mpi starts ranks on one node only: other nodes would need an SSH server")
	}
	at := document.Lookup(s.body, "command")
	words := literalWords(at)
	if meetsOthers(words, s) {
		return
	}
	const hint = "write `launcher: torchrun`, and the script alone as the command: [python3, train.py]"
	for _, program := range shell.Started(words) {
		launcher, told := torchrunIn(program), sp.Launcher == spec.LauncherEnv // it reads PET_NNODES and the like
		if launcher == "" {
			launcher, told = accelerateIn(sp, program), false
		}
		switch {
		case launcher == "":
			continue
		case told:
			c.src.Warnf(at, "launcher", hint, "`%s` hides from Sluice how its ranks end, and kills those that still save a checkpoint 30 s after a notice", launcher)
		default:
			c.src.Errorf(at, "launcher", hint, "`%s` starts a separate world on each node of `%s`: every node would train its own model", launcher, s.ID)
		}
		return
	}
}

// checkTwoLaunchers reports a command that starts ranks itself where a launcher starts it as each of them.
func checkTwoLaunchers(sp *spec.Train, c *checker, at *yaml.Node) {
	if sp.Launcher == spec.LauncherEnv || sp.Launcher == "" {
		return
	}
	for _, program := range shell.Started(literalWords(at)) {
		launcher := cmp.Or(torchrunIn(program), accelerateIn(sp, program))
		if len(program) > 0 && slices.Contains([]string{"mpirun", "mpiexec", "horovodrun", "deepspeed"}, path.Base(program[0])) {
			launcher = program[0]
		}
		if launcher != "" {
			c.src.Errorf(at, "launcher", "write the script alone as the command: [python3, train.py]; or remove `launcher`",
				"`launcher: %s` starts the command as each rank, and `%s` would start ranks in it again", sp.Launcher, launcher)
			return
		}
	}
}

// literalWords are the words of a command as they are written.
func literalWords(command *yaml.Node) []string {
	if command == nil || command.Kind != yaml.SequenceNode {
		return nil
	}
	return textsOf(document.Items(command))
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

// accelerateIn returns how a command starts an accelerate that starts several ranks, or nothing. One that starts a single rank leaves it
// its environment, and so the world of all nodes.
func accelerateIn(spec *spec.Train, words []string) string {
	launcher, options := "accelerate launch", words
	switch {
	case len(words) > 1 && path.Base(words[0]) == "accelerate" && words[1] == "launch":
		options = words[2:]
	case len(words) > 2 && strings.HasPrefix(path.Base(words[0]), "python") && words[1] == "-m" && words[2] == "accelerate.commands.launch":
		launcher, options = "python -m accelerate.commands.launch", words[3:]
	default:
		return ""
	}
	if i := slices.IndexFunc(options, func(word string) bool { return strings.HasSuffix(word, ".py") }); i >= 0 {
		options = options[:i] // what follows is the script's own
	}
	several := spec.Resources.GPU > 1
	for i, word := range options {
		option, value, given := strings.Cut(strings.ReplaceAll(word, "_", "-"), "=")
		if !given && i+1 < len(options) {
			value = options[i+1]
		}
		switch option {
		case "--multi-gpu", "--use-fsdp", "--use-deepspeed", "--use-megatron-lm":
			several = true
		case "--cpu", "--tpu", "--config-file", "--num-machines", "--machine-rank", "--main-process-ip", "--deepspeed-hostfile":
			return "" // one rank, or others that it may know of
		case "--num-processes":
			if value == "1" {
				return ""
			}
		}
	}
	if !several {
		return ""
	}
	return launcher
}

// toldOthers is how a torchrun is told where the other nodes are.
var toldOthers = regexp.MustCompile(`PET_(RDZV_ENDPOINT|MASTER_ADDR)=|--(rdzv[-_]endpoint|master[-_]addr)`)

// meetsOthers reports whether a torchrun is told where the other nodes are.
func meetsOthers(words []string, s *step) bool {
	env, _ := s.env.(expr.Mapping)
	return slices.ContainsFunc(words, toldOthers.MatchString) || slices.Contains(env.Keys, "PET_RDZV_ENDPOINT") || slices.Contains(env.Keys, "PET_MASTER_ADDR")
}
