package dsl

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
)

// poolDrivers are the keys of which a pool has one.
var poolDrivers = []string{"local", "kubernetes", "ec2"}

// targetDrivers are the keys of which a target has one.
var targetDrivers = []string{"embedded", "kserve"}

// eachDriver reports pools or targets that have no driver, or two.
func eachDriver(src *document.Source, root *yaml.Node, section, what, example string, drivers []string) {
	for key, body := range document.Entries(root, section) {
		if body.Kind != yaml.MappingNode {
			continue
		}
		first := ""
		for i := 0; i+1 < len(body.Content); i += 2 {
			driver := body.Content[i]
			switch {
			case !slices.Contains(drivers, driver.Value):
			case first == "":
				first = driver.Value
			default:
				src.Errorf(driver, "one-of", "keep one of them", "a %s has one driver, and `%s` is there already", what, first)
			}
		}
		if first == "" {
			src.Errorf(key, "driver", "give it one of "+strings.Join(drivers, ", ")+", such as "+example, "the %s `%s` has no driver", what, key.Value)
		}
	}
}
