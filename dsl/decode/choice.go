package decode

import (
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// ExactlyOne reports a mapping with none, or more than one, of the keys that a struct has to choose from. It returns the one. A key that
// the struct lacks was reported, and may have been meant for any.
func ExactlyOne[T any](src *document.Source, at, n *yaml.Node, what string) string {
	if n == nil || n.Kind != yaml.MappingNode {
		return ""
	}
	keys := spec.Choices(reflect.TypeFor[T]())
	var found []*yaml.Node
	for key := range document.Entries(n) {
		if slices.Contains(keys, key.Value) {
			found = append(found, key)
		}
	}
	switch len(found) {
	case 0:
		if !HasUnknownKey(n, reflect.TypeFor[T]()) {
			src.Errorf(at, "one-of", "", "%s has exactly one of %s", what, codeList(keys))
		}
	case 1:
		return found[0].Value
	default:
		src.Errorf(found[1], "one-of", "keep one of them", "%s has exactly one of %s, and `%s` is already set", what, codeList(keys), found[0].Value)
	}
	return ""
}

// HasUnknownKey reports whether a mapping has a key that its struct lacks.
func HasUnknownKey(n *yaml.Node, of reflect.Type) bool {
	for key := range document.Entries(n) {
		if !HasKey(of, key.Value) {
			return true
		}
	}
	return false
}

// codeList lists words as code: `a`, `b` and `c`.
func codeList(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return "`" + words[0] + "`"
	}
	return "`" + strings.Join(words[:last], "`, `") + "` and `" + words[last] + "`"
}
