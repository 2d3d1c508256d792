package dsl

import (
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// eachDriver reports pools or targets that have no driver, or two.
func eachDriver(src *document.Source, root *yaml.Node, section, what, example string, of reflect.Type) {
	drivers := spec.Choices(of)
	for key, body := range document.Entries(root, section) {
		if body.Kind != yaml.MappingNode {
			continue
		}
		first := ""
		for driver := range document.Entries(body) {
			switch {
			case !slices.Contains(drivers, driver.Value):
			case first == "":
				first = driver.Value
			default:
				src.Errorf(driver, "one-of", "keep one of them", "a %s has one driver, and `%s` is already set", what, first)
			}
		}
		if first == "" && !hasUnknownKey(body, of) {
			src.Errorf(key, "driver", "give it one of "+strings.Join(drivers, ", ")+", such as "+example, "the %s `%s` has no driver", what, key.Value)
		}
	}
}

// hasUnknownKey reports whether a mapping has a key that its struct lacks, which was reported and may have been meant for any.
func hasUnknownKey(n *yaml.Node, of reflect.Type) bool {
	for key := range document.Entries(n) {
		if !hasKey(of, key.Value) {
			return true
		}
	}
	return false
}
