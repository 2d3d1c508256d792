package environment

import (
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/address"
	"github.com/sluiceml/sluice/dsl/decode"
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
		if !decode.HasKey(of, key.Value) {
			return true
		}
	}
	return false
}

// checkPools reports what the environment says of its pools and cannot be.
func checkPools(src *document.Source, root *yaml.Node, env *spec.Environment) {
	for key, body := range document.Entries(root, "pools") {
		if at := document.Lookup(body, "runtime", "image"); at != nil && env.Pools[key.Value].Local != nil {
			src.Errorf(at, "runtime", "use `kubernetes` or `ec2`, or `python: requirements.txt`", "the pool `%s` starts processes on this machine, not containers", key.Value)
		}
		checkSold(src, key, document.Lookup(body, "capacity"))
		emptyLists(src, document.Lookup(body, "ec2"), "types", "subnets")
		checkLaunchTemplate(src, document.Lookup(body, "ec2"))
		decode.Positive(src, document.Lookup(body, "local", "interruptions"), "mean_up")
		if at := document.Lookup(body, "metrics_listen"); at != nil && !address.IsHostPort(at.Value) {
			src.Errorf(at, "listen", "write a host and a port, such as 0.0.0.0:9465", "`metrics_listen` is not an address to listen on")
		}
	}
}

// checkLaunchTemplate reports a pool of EC2 whose instances are described twice, or by a launch template that is not named.
func checkLaunchTemplate(src *document.Source, pool *yaml.Node) {
	at := document.Lookup(pool, "launch_template")
	if at == nil {
		return
	}
	decode.ExactlyOne[spec.LaunchTemplate](src, document.KeyNode(pool, "launch_template"), at, "`launch_template`")
	if document.Lookup(pool, "instance") != nil {
		src.Errorf(at, "one-of", "add what `instance` says to the launch template, or the other way round", "`launch_template` and `instance` cannot be combined")
	}
}

// checkSold reports a pool that sells nothing, or the same twice.
func checkSold(src *document.Source, pool, sold *yaml.Node) {
	if sold == nil || sold.Kind != yaml.SequenceNode {
		return
	}
	if len(sold.Content) == 0 {
		src.Errorf(sold, "capacity", "write `capacity: [spot, on_demand]`, or remove it for on_demand only", "the pool `%s` has no capacity type", pool.Value)
	}
	for i, item := range sold.Content {
		if slices.ContainsFunc(sold.Content[:i], func(before *yaml.Node) bool { return before.Value == item.Value }) {
			src.Errorf(item, "capacity", "remove it", "`%s` is listed twice", item.Value)
		}
	}
}

// emptyLists reports lists of a mapping that must have something in them.
func emptyLists(src *document.Source, n *yaml.Node, keys ...string) {
	for _, key := range keys {
		if at := document.Lookup(n, key); at != nil && at.Kind == yaml.SequenceNode && len(at.Content) == 0 {
			src.Errorf(at, "required", "", "`%s` is empty", key)
		}
	}
}
