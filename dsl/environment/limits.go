package environment

import (
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// checkLimits reports limits that leave no room for a single cleaning.
func checkLimits(src *document.Source, root *yaml.Node, env *spec.Environment) {
	if limit := env.Limits.Memory; limit > 0 && env.Clean.Memory > limit {
		src.Errorf(document.Lookup(root, "limits", "memory"), "range", "raise it, or lower `clean: {memory: ...}`",
			"`memory: %s` is less than the memory of one clean step, %s", limit, env.Clean.Memory)
	}
}
