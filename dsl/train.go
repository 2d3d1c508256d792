package dsl

import (
	"cmp"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/decode"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/suggest"
)

var (
	nodesType     = reflect.TypeFor[spec.Nodes]()
	resourcesType = reflect.TypeFor[spec.Resources]()

	trainOutputType    = reflect.TypeFor[spec.TrainOutput]()
	evaluateOutputType = reflect.TypeFor[spec.EvaluateOutput]()
)

func trainOutputs(ts *expr.TypeSystem, id string, sp *spec.Train) expr.ObjectType {
	t := reflect.TypeFor[spec.TrainOutput]()
	fields := ts.StructFields(t)
	fields["metrics"] = metricsType(ts, id, sp.Metrics)
	return expr.ObjectType{Fields: declaredOutputs(fields, sp.Outputs), Optional: expr.OptionalFields(t), Ranges: expr.StructRanges(t)}
}

func checkTrain(c *checker, s *step, spec *spec.Train) {
	requireCommand(c, s)
	checkCommand(c, s, &spec.Command)
	c.checkReserved(s, trainOutputType)
	if spec.Nodes.Max != 0 && spec.Nodes.Max < spec.Nodes.Min {
		c.src.Errorf(document.PlaceOf(s.body, "nodes"), "range", "", "`max: %d` is less than `min: %d`", spec.Nodes.Max, spec.Nodes.Min)
	}
	checkReshard(c, s, spec)
	checkResumeFrom(c, document.Lookup(s.body, "resume_from"))
	checkTrainNeeds(spec, c, s)
	checkTrainPools(spec, c, s)
	checkDeadline(spec, c, s)
}

// modelFile is how the names of files end that hold a model.
var modelFile = regexp.MustCompile(`\.(pth?|ckpt|safetensors|bin|onnx|h5|keras|pkl|tar|zip|gz)$`)

// checkResumeFrom reports what cannot be the name of a checkpoint.
func checkResumeFrom(c *checker, at *yaml.Node) {
	if at == nil || at.Kind != yaml.ScalarNode || strings.Contains(at.Value, "${") {
		return
	}
	if s := at.Value; strings.ContainsAny(s[:min(1, len(s))], "./~") || strings.Contains(s, "://") || modelFile.MatchString(s) ||
		!strings.Contains(s, "/") && !strings.HasPrefix(s, "sha256:") {
		c.src.Errorf(at, "path", "write RUN/STEP or RUN/STEP@1200, as `sluice checkpoint ls` shows it; hand a file to the program as an argument",
			"%q is not the name of a checkpoint of a run", s)
	}
}

// checkReshard reports sharded checkpoints that a gang of another size may have to resume from and cannot, and what is only said of them.
func checkReshard(c *checker, s *step, sp *spec.Train) {
	if at := document.Lookup(s.body, "checkpoint"); sp.Checkpoint.Reshard && sp.Checkpoint.Layout != spec.LayoutSharded {
		c.src.Errorf(document.KeyNode(at, "reshard"), "range", "write `layout: sharded`, or remove it", "`reshard` has no effect: only `layout: sharded` divides a checkpoint among the nodes")
	}
	if sp.Checkpoint.FixedSize() && sp.Nodes.Max > sp.Nodes.Min {
		c.src.Errorf(document.PlaceOf(s.body, "nodes"), "range",
			"write `nodes: "+strconv.Itoa(sp.Nodes.Max)+"`; or `checkpoint: {layout: sharded, reshard: true}` if the program can load the parts of another number of nodes",
			"`%s` may resume on another number of nodes, which sharded checkpoints do not allow without `reshard: true`", s.ID)
	}
}

// checkTrainPools checks that the environment has the pools, and that each is large enough.
func checkTrainPools(sp *spec.Train, c *checker, s *step) {
	if c.env == nil {
		return
	}
	pools := slices.Sorted(maps.Keys(c.env.Pools))
	at := document.Lookup(s.body, "pool")
	if at == nil {
		if len(pools) != 1 {
			hint := "write `pool: NAME`; " + suggest.Hint("", pools)
			if len(pools) == 0 {
				hint = "add `pools: {local: {local: {nodes: 1}}}` to the environment, for this machine"
			}
			c.src.Errorf(s.kindKey(), "pool", hint, "the environment `%s` has %s, and `%s` does not say which to use", c.env.Name, plural(len(pools), "pool"), s.ID)
			return
		}
		sp.Pool = pools
	}
	if at != nil && at.Kind == yaml.SequenceNode && len(at.Content) == 0 {
		c.src.Errorf(at, "pool", suggest.Hint("", pools), "`%s` does not name a pool", s.ID)
	}
	decode.Positive(c.src, document.Lookup(s.body, "checkpoint"), "every")
	for i, name := range sp.Pool {
		place := itemAt(at, i)
		switch {
		case name == "":
		case !slices.Contains(pools, name):
			c.src.Errorf(place, "pool", suggest.Hint(name, pools), "the environment `%s` has no pool `%s`", c.env.Name, name)
		case slices.Contains(sp.Pool[:i], name):
			c.src.Errorf(place, "pool", "remove it", "the pool `%s` is listed twice", name)
		default:
			checkTrainPool(sp, c, s, name)
			checkCapacity(sp, c, s, name, place)
		}
	}
}

// itemAt is where item i of a list is written; a single value stands for a list of one.
func itemAt(list *yaml.Node, i int) *yaml.Node {
	if list != nil && list.Kind == yaml.SequenceNode && i < len(list.Content) {
		return list.Content[i]
	}
	return list
}

// checkGangSize reports a gang that is larger than a pool.
func checkGangSize(sp *spec.Train, c *checker, s *step, pool string) {
	nodes := c.env.Pools[pool].Size()
	if at := document.Lookup(s.body, "nodes", "max"); at != nil && nodes > 0 && len(sp.Pool) == 1 && sp.Nodes.Min <= nodes && sp.Nodes.Max > nodes {
		c.src.Warnf(at, "pool", "write `max: "+strconv.Itoa(nodes)+"`, or give the pool more `nodes`", "`%s` never has %s: the pool `%s` has %d", s.ID, plural(sp.Nodes.Max, "node"), pool, nodes)
	}
	if nodes == 0 || sp.Nodes.Min <= nodes {
		return
	}
	place := cmp.Or(document.Lookup(s.body, "nodes"), s.kindKey())
	c.src.Errorf(place, "pool", "ask for fewer, or give the pool more `nodes`", "`%s` needs %s, but the pool `%s` has %d", s.ID, plural(sp.Nodes.Min, "node"), pool, nodes)
}
