package dsl

import (
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/shell"
)

// ownVariables are those that Sluice sets for every program, and rankVariables those of the ranks of a training.
var (
	ownVariables  = []string{"SLUICE_OUTPUT_DIR", "SLUICE_METRICS", "SLUICE_CHECKPOINT_DIR", "SLUICE_CHECKPOINT_EVERY", "SLUICE_RESUME_DIR"}
	rankVariables = []string{"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT", "TF_CONFIG"}
)

// plainSecret are keys of AWS, GitHub, GitLab, Slack, Hugging Face and OpenAI.
var plainSecret = regexp.MustCompile(`^(AKIA[0-9A-Z]{16}|gh[opsru]_[0-9A-Za-z]{36,}|github_pat_\w{30,}|glpat-[\w-]{20,}|xox[abpr]-[\w-]{20,}|hf_[0-9A-Za-z]{30,}|sk-[\w-]{30,}|-----BEGIN [A-Z ]*PRIVATE KEY-----)`)

// checkVariableNames reports variables that no program could read, and those that would take the place of Sluice's own; it warns of keys in
// plain.
func (c *checker) checkVariableNames(s *step, key string) {
	for name, value := range document.Entries(s.node, key) {
		switch ranks := s.info().programs == programsOnPool || s.onPool(); {
		case !shell.IsVariable(name.Value):
			hint := "use letters, digits and `_`, not beginning with a digit"
			if near := strings.NewReplacer("-", "_", ".", "_", " ", "_").Replace(name.Value); shell.IsVariable(near) {
				hint = "write `" + near + "`"
			}
			c.src.Errorf(name, "variable", hint, "%q is not a valid name for an environment variable", name.Value)
		case key == "env" && plainSecret.MatchString(value.Value):
			c.src.Warnf(value, "secret", "write its source into the environment's `secrets`, and `secrets: {"+name.Value+": NAME}` here", "the value of `%s` looks like a key, and a pipeline is no secret", name.Value)
		case slices.Contains(ownVariables, name.Value), ranks && slices.Contains(rankVariables, name.Value):
			c.src.Errorf(name, "variable", "remove it, or give yours another name", "Sluice sets `%s` itself, and the step could not work with another value", name.Value)
		}
	}
}

var variableWord = regexp.MustCompile(`^\w*`)

// shells are programs that read their arguments as a shell would, or hand them on to one.
var shells = []string{"sh", "bash", "dash", "zsh", "ksh", "ssh", "docker", "podman", "kubectl", "env", "expr", "test", "[", "awk", "perl", "make", "envsubst", "jq", "yq"}

// checkShell warns of a command that is written as for a shell.
func (c *checker) checkShell(s *step, n *yaml.Node) {
	program := document.Lookup(n, 0)
	if program == nil || program.Kind != yaml.ScalarNode || strings.Contains(program.Value, "${") {
		return
	}
	name := program.Value[strings.LastIndexByte(program.Value, '/')+1:]
	if len(n.Content) == 1 && strings.Contains(strings.TrimSpace(name), " ") && (c.ws == nil || !c.ws.Exists(program.Value)) {
		c.src.Warnf(program, "shell", "write ["+strings.Join(strings.Fields(program.Value), ", ")+"], or use `script:` for a shell command", "%q as a whole is taken as the name of a program", program.Value)
		return
	}
	if slices.Contains(shells, name) {
		return
	}
	if slices.Contains([]string{"cd", "source", ".", "export", "ulimit", "alias"}, program.Value) {
		c.src.Warnf(program, "shell", "use a `script`", "`%s` is a command of the shell, not a program", program.Value)
		return
	}
	isSet := func(name string) bool {
		return document.Lookup(s.node, "env", name) != nil || document.Lookup(s.node, "secrets", name) != nil
	}
	for _, arg := range n.Content[1:] {
		if arg = document.Unalias(arg); arg.Kind != yaml.ScalarNode {
			continue
		}
		word := variableWord.FindString(strings.TrimPrefix(arg.Value, "$"))
		switch {
		case slices.Contains([]string{"&&", "||", "|", ">", ">>", "2>&1"}, arg.Value):
			c.src.Warnf(arg, "shell", "use a `script`", "a command is not run by a shell: `%s` is passed to the program as an argument", arg.Value)
			return
		case strings.HasPrefix(arg.Value, "$") && (strings.HasPrefix(word, "SLUICE_") || slices.Contains([]string{"HOME", "PWD", "USER", "PATH"}, word) || isSet(word)):
			c.src.Warnf(arg, "shell", "use a `script`, or let the program read the variable", "a command is not run by a shell: `$%s` is not expanded", word)
		}
	}
}

// checkPathTexts warns of texts that are what an expression would read.
func (c *checker) checkPathTexts() {
	for _, n := range c.d.Paths {
		before, path, isFlag := strings.Cut(n.Value, "=")
		if before += "="; !isFlag {
			before, path = "", n.Value
		}
		word, rest, _ := strings.Cut(path, ".")
		name, _, _ := strings.Cut(strings.TrimPrefix(rest, "?"), ".")
		_, isParam := c.pipeline.Params[name]
		ofStep := func(s *step) bool {
			return word == "matrix" && document.Lookup(s.node, "matrix", rest) != nil || word == "inputs" && rest == name+".path" && document.Lookup(s.body, "inputs", name) != nil
		}
		if word == "params" && isParam || word == "steps" && c.byID[name] != nil || (word == "last" || word == "serving") && strings.Contains(rest, "steps.") || slices.ContainsFunc(c.steps, ofStep) {
			c.src.Warnf(n, "template", "write \""+before+"${"+path+"}\"", "`%s` is plain text here, and is not replaced", n.Value)
		}
	}
}
