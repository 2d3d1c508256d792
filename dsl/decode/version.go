package decode

import (
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
)

// IsOther reports a document that is not one of the version wanted, and says so once: what follows would be about another language.
func IsOther(src *document.Source, root *yaml.Node, version, hint string) bool {
	if root.Kind != yaml.MappingNode {
		return false
	}
	written := document.Lookup(root, "sluice")
	switch {
	case written == nil && document.Lookup(root, "apiVersion") != nil:
		src.Errorf(document.KeyNode(root, "apiVersion"), "required", "a Sluice document begins with `sluice: "+version+"`", "this document belongs to another system")
	case written != nil && written.Value != version && slices.Contains([]string{"pipeline/v1", "environment/v1"}, written.Value):
		src.Errorf(written, "enum", hint, "this must be %s, not %q", version, written.Value)
	default:
		return false
	}
	return true
}
