package environment

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/decode"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// checkLimits reports limits that leave no room for a single cleaning as the environment has it, and warns of those that do not limit anything.
func checkLimits(src *document.Source, root *yaml.Node, env *spec.Environment) {
	for _, key := range []string{"cpu", "memory", "gpu"} {
		if at := document.Lookup(root, "limits", key); at != nil && strings.Trim(at.Value, "0.") == "" {
			src.Warnf(at, "range", "remove it, or write a number above 0", "`%s: %s` does not limit anything", key, at.Value)
		}
	}
	if limit := env.Limits.Memory; decode.HasUnit(src, document.Lookup(root, "limits"), "memory") && limit > 0 && env.Clean.Memory > limit && document.Lookup(root, "clean", "memory") != nil {
		src.Errorf(document.Lookup(root, "limits", "memory"), "range", "raise it, or lower `clean: {memory: ...}`",
			"`memory: %s` is less than the memory of one clean step, %s", limit, env.Clean.Memory)
	}
}
