package decode

import (
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/nearest"
)

// ExactlyOne reports a mapping with none, or more than one, of the keys that a struct has to choose from. It returns the one.
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
		if !meantOneOf(n, keys) {
			src.Errorf(at, "one-of", "", "%s has exactly one of %s", what, codeList(keys))
		}
	case 1:
		return found[0].Value
	default:
		src.Errorf(found[1], "one-of", "keep one of them", "%s has exactly one of %s, and `%s` is already set", what, codeList(keys), found[0].Value)
	}
	return ""
}

// meantOneOf reports whether a key of a mapping, which was reported as unknown, was likely meant to be one of some keys.
func meantOneOf(n *yaml.Node, keys []string) bool {
	for key, val := range document.Entries(n) {
		if _, ours := ForeignWord(key, val, keys); ours != "" || nearest.To(key.Value, keys) != "" {
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

// Positive reports a duration that is none.
func Positive(src *document.Source, n *yaml.Node, key string) {
	at := document.Lookup(n, key)
	if at == nil {
		return
	}
	if d, err := spec.ParseDuration(at.Value); err == nil && d <= 0 {
		src.Errorf(at, "range", "write it as 30s or 2h", "%s is not a positive duration", at.Value)
	}
}
