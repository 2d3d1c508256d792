package decode

import (
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/suggest"
)

const pipelineVersion, environmentVersion = "pipeline/v1", "environment/v1"

// IsOther reports a document that is not one of the version wanted, and says so once: what follows would be about another language.
func IsOther(src *document.Source, root *yaml.Node, version, hint string) bool {
	if root.Kind != yaml.MappingNode {
		return false
	}
	written, begins := document.Lookup(root, "sluice"), "a Sluice document begins with `sluice: "+version+"`"
	switch {
	case written == nil && document.Lookup(root, "apiVersion") != nil:
		src.Errorf(document.KeyNode(root, "apiVersion"), "required", begins, "this document belongs to another system")
	case written != nil && written.Value != version && slices.Contains([]string{pipelineVersion, environmentVersion}, written.Value):
		src.Errorf(written, "enum", hint, "this must be %s, not %q", version, written.Value)
	case written == nil && version == pipelineVersion && document.Lookup(root, "steps") == nil:
		key := foreignKey(root)
		if key == nil {
			return false
		}
		src.Errorf(key, "required", begins+", and has a `name` and `steps`", "this document belongs to another system")
	default:
		return false
	}
	return true
}

// foreignKey is a key of root that neither document has, nor one like it; nil where there is none, or where root has steps of ours.
func foreignKey(root *yaml.Node) *yaml.Node {
	known := append(spec.KeyNames(spec.KeysOf(reflect.TypeFor[spec.Pipeline]())), spec.KeyNames(spec.KeysOf(reflect.TypeFor[spec.Environment]()))...)
	for key, val := range document.Entries(root) {
		switch {
		case suggest.To(key.Value, []string{"sluice", "steps"}) != "" || document.Lookup(val, "steps") != nil:
			return nil
		case !slices.Contains(known, key.Value) && suggest.To(key.Value, known) == "":
			return key
		}
	}
	return nil
}
