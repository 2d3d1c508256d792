package dsl

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/shell"
	"github.com/sluiceml/sluice/internal/suggest"
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
			c.src.Warnf(value, "secret", "write its source into the environment's `secrets`, and `secrets: {"+name.Value+": NAME}` here", "the value of `%s` looks like a key, and a pipeline is not kept secret", name.Value)
		case slices.Contains(ownVariables, name.Value), ranks && slices.Contains(rankVariables, name.Value):
			c.src.Errorf(name, "variable", "remove it, or give yours another name", "Sluice sets `%s` itself, and the step could not work with another value", name.Value)
		case key == "env" && !strings.HasPrefix(name.Value, "HF_"): // libraries of that prefix expand what they read
			if read := cmp.Or(shell.Variable(value.Value, s.hasVariable), shell.Substituted(value.Value)); read != "" {
				c.src.Warnf(value, "shell", "write the whole value, or set it in a `script`", "a variable is not set by a shell: `%s` is not expanded", read)
			}
		}
	}
}

// checkShell reports what a command, or a variable, has for a shell to expand.
func (c *checker) checkShell(s *step, n *yaml.Node) {
	var exists func(string) bool
	if c.ws != nil {
		exists = c.ws.Exists
	}
	shell.Check(c.src, n, s.hasVariable, exists)
}

// variableOfSluice is one that a script or a program given to a shell reads.
var variableOfSluice = regexp.MustCompile(`\$\{?(SLUICE_[A-Z_]+)`)

// checkSluiceVariables warns of variables that look like those that Sluice sets.
func (c *checker) checkSluiceVariables(s *step) {
	for _, key := range []string{"script", "command"} {
		for n := range document.Scalars(document.Lookup(s.body, key)) {
			for _, m := range variableOfSluice.FindAllStringSubmatch(n.Value, -1) {
				name := m[1]
				meant := suggest.To(name, ownVariables)
				if i := slices.IndexFunc(ownVariables, func(own string) bool { return strings.HasPrefix(own, name) || strings.HasPrefix(name, own) }); i >= 0 {
					meant = cmp.Or(meant, ownVariables[i])
				}
				if meant != "" && !slices.Contains(ownVariables, name) && !s.hasVariable(name) {
					c.src.Warnf(n, "variable", "did you mean `$"+meant+"`?", "Sluice sets no variable `%s`", name)
					return
				}
			}
		}
	}
}

// hasVariable reports whether the step sets a variable.
func (s *step) hasVariable(name string) bool {
	return document.Lookup(s.node, "env", name) != nil || document.Lookup(s.node, "secrets", name) != nil
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
