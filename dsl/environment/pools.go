package environment

import (
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

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
		if first == "" && !decode.HasUnknownKey(body, of) {
			src.Errorf(key, "driver", "give it one of "+strings.Join(drivers, ", ")+", such as "+example, "the %s `%s` has no driver", what, key.Value)
		}
	}
}

// checkPools reports what the environment says of its pools and cannot be.
func checkPools(src *document.Source, root *yaml.Node, env *spec.Environment) {
	for key, body := range document.Entries(root, "pools") {
		pool := env.Pools[key.Value]
		if at := document.Lookup(body, "runtime", "image"); at != nil && pool.Local != nil {
			src.Errorf(at, "runtime", "use `kubernetes` or `ec2`, or `python: requirements.txt`", "the pool `%s` starts processes on this machine, not containers", key.Value)
		} else {
			CheckImage(src, at)
		}
		if at := document.Lookup(body, "runtime", "python"); at != nil && notBeside.MatchString(at.Value) {
			src.Warnf(at, "path", "write for example requirements.txt", "`python` is a requirements file in the pipeline's folder, not %q", at.Value)
		}
		notZero(src, body, "retry_for")
		checkSold(src, key, document.Lookup(body, "capacity"))
		checkNode(src, key, document.Lookup(body, "node"))
		checkPrices(src, key, body, pool)
		checkEC2(src, document.Lookup(body, "ec2"))
		checkKubernetes(src, document.Lookup(body, "kubernetes"))
		decode.HasUnit(src, document.Lookup(body, "local"), "file_cache")
		if at := document.Lookup(body, "local", "interruptions"); at != nil {
			decode.ExactlyOne[spec.Interruptions](src, document.KeyNode(document.Lookup(body, "local"), "interruptions"), at, "`interruptions`")
			decode.Positive(src, at, "mean_up")
			if pool.Local != nil && !slices.Contains(pool.Sells(), spec.CapacitySpot) {
				src.Warnf(document.Lookup(body, "capacity"), "capacity", "add `spot` to it, or remove `interruptions`", "`interruptions` has no effect: only spot nodes are interrupted")
			}
		}
		if at := document.Lookup(body, "metrics_listen"); at != nil && !IsHostPort(at.Value) {
			src.Errorf(at, "listen", "write a host and a port, such as 0.0.0.0:9465", "`metrics_listen` is not an address to listen on")
		}
	}
}

// notBeside are versions of Python, and paths of this machine.
var notBeside = regexp.MustCompile(`^([0-9.]+$|[/~])`)

// checkNode warns of a node whose GPUs have a type and no number, and reports a memory without a unit.
func checkNode(src *document.Source, pool, n *yaml.Node) {
	decode.HasUnit(src, n, "memory")
	if at := document.Lookup(n, "gpu_type"); at != nil && document.Lookup(n, "gpu") == nil {
		src.Warnf(at, "resources", "write `gpu: 1` beside it", "a node of the pool `%s` has a `gpu_type`, but `gpu` is 0", pool.Value)
	}
}

// checkPrices reports a limit on costs that cannot be kept, or lets no node start, and warns of prices of what the pool does not offer. On
// this machine nothing is paid for, and EC2 is asked for its prices.
func checkPrices(src *document.Source, key, body *yaml.Node, pool spec.Pool) {
	sells, prices := pool.Sells(), document.Lookup(body, "usd_per_hour")
	isPriced := func(capacity string) bool { return pool.USDPerHour.Of(capacity) > 0 }
	if len(document.Items(document.Lookup(body, "capacity"))) != len(pool.Capacity) || pool.Local == nil && pool.Kubernetes == nil && pool.EC2 == nil {
		return // reported
	}
	isWithin := func(capacity string) bool { return pool.USDPerHour.Of(capacity) <= pool.Limits.USDPerHour }
	limit := document.Lookup(body, "limits", "usd_per_hour")
	switch unpriced := slices.DeleteFunc(slices.Clone(sells), isPriced); {
	case limit == nil && prices != nil && pool.USDPerHour != (spec.Prices{}) && len(unpriced) == len(sells):
		src.Warnf(prices, "price", "write the price of "+strings.Join(sells, " and "), "the pool `%s` only offers %s, and has no price for it", key.Value, strings.Join(sells, ", "))
	case limit == nil:
	case pool.Limits.USDPerHour == 0:
		src.Warnf(limit, "range", "remove it, or write a number above 0", "`usd_per_hour: %s` does not limit anything", limit.Value)
	case pool.Kubernetes != nil && len(unpriced) > 0:
		src.Errorf(limit, "price", "write `usd_per_hour: {"+unpriced[0]+": ...}` for the pool", "the limit cannot be enforced: a node of `%s` has no price on %s", key.Value, unpriced[0])
	case len(unpriced) == 0 && !slices.ContainsFunc(sells, isWithin):
		src.Errorf(limit, "range", "raise the limit", "no node of `%s` could start: one costs more than the limit of $%s an hour", key.Value, limit.Value)
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
