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
	keys, all := spec.Choices(reflect.TypeFor[T]()), spec.KeyNames(spec.KeysOf(reflect.TypeFor[T]()))
	if len(n.Content) > 0 && document.OnlyKeys(n, func(word string) bool { return !slices.Contains(all, word) }) {
		return "" // all of its keys were told of
	}
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
	return !document.OnlyKeys(n, func(key string) bool { return HasKey(of, key) })
}

// codeList lists words as code: `a`, `b` and `c`.
func codeList(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return "`" + words[0] + "`"
	}
	return "`" + strings.Join(words[:last], "`, `") + "` and `" + words[last] + "`"
}

// OtherLevel says where a word belongs that is no key of a mapping n of type t, but of what stands beside or around it: each of the types has
// keys of its own beside the one that it has to choose, which has others. It is empty where the word belongs to neither.
func (d *Decoder) OtherLevel(t reflect.Type, n *yaml.Node, word string, choosing ...reflect.Type) string {
	for _, whole := range choosing {
		for _, field := range spec.KeysOf(whole) {
			chosen := field.Type
			if chosen.Kind() == reflect.Pointer {
				chosen = chosen.Elem()
			}
			if chosen.Kind() != reflect.Struct || !slices.Contains(spec.Choices(whole), field.Name) {
				continue
			}
			body := document.Lookup(n, field.Name)
			switch {
			case t == chosen && HasKey(whole, word):
				return "write it one level up, beside `" + field.Name + "`"
			case t == whole && HasKey(chosen, word) && body != nil && body.Kind == yaml.MappingNode:
				d.NoteMeant(body, word) // it is not missing there
				return "write it one level down, under `" + field.Name + "`"
			}
		}
	}
	return ""
}
