package dsl

import (
	"cmp"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/decode"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/suggest"
)

func rolloutOutputs(ts *expr.TypeSystem, _ string, _ *spec.Rollout) expr.ObjectType {
	t := reflect.TypeFor[spec.RolloutOutput]()
	return expr.ObjectType{Fields: ts.StructFields(t), Ranges: expr.StructRanges(t)}
}

func checkRollout(c *checker, s *step, spec *spec.Rollout) {
	if at := document.Lookup(s.body, "target"); at != nil && spec.Target != "" && c.env != nil {
		target, ok := c.env.Targets[spec.Target]
		if ok {
			checkProtocol(c, s, spec, target.Protocol())
			c.checkEngine(s, target)
		} else {
			c.src.Errorf(at, "target", suggest.Hint(spec.Target, slices.Collect(maps.Keys(c.env.Targets))), "the environment `%s` has no target `%s`", c.env.Name, spec.Target)
		}
	}
	if at := document.Lookup(s.body, "traffic"); at != nil && document.Lookup(at, "replay") == nil && at.Kind == yaml.MappingNode {
		c.src.Errorf(at, "required", "write `replay: ${steps.NAME.dataset}`", "`traffic` does not say which dataset it replays")
	}
	c.checkReader(document.Lookup(s.body, "traffic"), "replay", "test")
	c.checkReader(document.Lookup(s.body, "warm_up"), "dataset", "test")
	checkCompare(c, s, spec.Compare)
	if at := document.Lookup(s.body, "sticky"); at != nil && at.Kind == yaml.MappingNode {
		checkSticky(spec.Sticky, c, at)
	}
	checkLoss(c, s, spec)
	checkLatency(c, s)
	checkStages(spec, c, s)
	checkQueries(spec, c, s)
}

// checkEngine reports an engine for a target that cannot run it: one of ONNX Runtime, or of Triton where TensorRT for RTX built it.
func (c *checker) checkEngine(s *step, target spec.Target) {
	at := document.Lookup(s.body, "model")
	if at == nil {
		return
	}
	for e, r := range s.references() {
		of := c.byID[r.Step()]
		if e.Node != at || of == nil || len(r.Path) < 4 {
			continue
		}
		built, ok := of.known.(*spec.CompileModel)
		if !ok {
			continue
		}
		names := []string{built.Select}
		if r.Path[2].Name == "variants" {
			names[0] = r.Path[3].Name
		} else if _, named := built.Variants[built.Select]; !named { // `fastest` or `smallest`: any of them
			names = slices.Sorted(maps.Keys(built.Variants))
		}
		var message, help string
		for _, name := range slices.Backward(names) { // so that the first is reported
			why, instead := engineRefusal(built.Variants[name].TensorRT, target)
			if why == "" {
				message = "" // the step may select this one
				break
			}
			message, help = "`"+name+"` is "+why, instead
		}
		if message != "" {
			e.ReportReference(c.src, r, "target", help, message)
		}
	}
}

// engineRefusal returns why a target cannot run an engine, and what to do; nothing if it can, or if there is no engine.
func engineRefusal(engine *spec.TensorRTVariant, target spec.Target) (why, help string) {
	switch {
	case engine == nil:
	case engine.IsRTX() && (target.Embedded != nil || target.Triton != nil || target.KServe != nil):
		return "an engine of TensorRT for RTX, which neither ONNX Runtime nor Triton loads",
			"release an `onnx` variant, or use a `process` target whose command loads the engine"
	case target.Embedded != nil:
		return "an engine, and an `embedded` target runs ONNX Runtime", "release an `onnx` variant, or use a target with `triton`"
	}
	return "", ""
}

// checkLatency warns of a latency test that is not made.
func checkLatency(c *checker, s *step) {
	at := document.Lookup(s.body, "tests", "latency")
	for key := range document.Entries(at) {
		if document.Lookup(at, "quantile") == nil && decode.HasKey(reflect.TypeFor[spec.LatencyTest](), key.Value) {
			c.src.Warnf(key, "compare", "add for example `quantile: 0.99`", "`%s` has no effect: without a `quantile` there is no latency test", key.Value)
			return
		}
	}
}

// checkQueries demands a Prometheus server for queries, and queries that it can answer.
func checkQueries(sp *spec.Rollout, c *checker, s *step) {
	for i := range sp.Stages {
		at := document.Lookup(s.body, "stages", i, "queries")
		if at != nil && c.env != nil && c.env.Prometheus == "" {
			c.src.Errorf(at, "stages", "add `prometheus: http://HOST:9090` to the environment", "the environment `%s` does not say which Prometheus server to ask", c.env.Name)
		}
		for _, query := range document.Items(at) {
			c.checkQuery(document.Lookup(query, "query"), "$candidate", "$stable", "$target")
		}
	}
}

func checkSticky(sticky spec.Sticky, c *checker, at *yaml.Node) {
	header := document.Lookup(at, "header")
	switch {
	case (sticky.Header == "") == (sticky.Field == ""):
		c.src.Errorf(at, "sticky", "write {header: NAME} or {field: NAME}", "`sticky` has exactly one of `header` and `field`")
	case header != nil && !headerName.MatchString(sticky.Header):
		c.src.Errorf(header, "sticky", "use letters, digits, `-`, `_` and `.`", "%q is not a valid name of a header", sticky.Header)
	}
}

// headerName is what names both a header of HTTP and metadata of gRPC.
var headerName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

func checkStages(sp *spec.Rollout, c *checker, s *step) {
	stages := document.Lookup(s.body, "stages")
	if stages == nil || stages.Kind != yaml.SequenceNode {
		return
	}
	if len(stages.Content) == 0 {
		c.src.Errorf(stages, "stages", "end with {weight: 100%}", "there are no stages")
		return
	}
	if len(sp.Stages) != len(stages.Content) {
		return // a stage was too broken to be read, and was reported
	}
	var weight spec.Share
	for i, stage := range sp.Stages {
		at := stages.Content[i]
		decode.Positive(c.src, at, "max_wait")
		hasShadow, hasWeight := document.Lookup(at, "shadow") != nil, document.Lookup(at, "weight") != nil
		if maxWait := cmp.Or(stage.MaxWait, spec.DefaultsOf[spec.Stage]().MaxWait); stage.Bake > maxWait && !isComputed(at, "max_wait") {
			c.src.Errorf(document.PlaceOf(at, "bake"), "stages", "increase `max_wait`", "`bake: %s` is longer than the stage may take (`max_wait: %s`)", stage.Bake, maxWait)
		}
		switch {
		case hasShadow == hasWeight && !hasWeight && c.src.Findings.HasErrorAt(at): // perhaps of the key that is meant to be one of them
		case hasShadow == hasWeight:
			c.src.Errorf(at, "stages", "", "a stage has exactly one of `shadow` and `weight`")
		case isComputed(at, "shadow") || isComputed(at, "weight"): // Rollout.Check checks it when it is known
			continue
		case stage.Shadow+stage.Weight == 0:
			if n := cmp.Or(document.Lookup(at, "shadow"), document.Lookup(at, "weight")); isShare(n.Value) {
				c.src.Errorf(n, "stages", "", "a stage of 0%% gets no traffic")
			}
		case hasWeight && stage.Weight <= weight:
			c.src.Errorf(document.PlaceOf(at, "weight"), "stages", "increase the weight from stage to stage", "the weight %s is not greater than the %s before it", stage.Weight, weight)
		case hasShadow && weight > 0:
			c.src.Errorf(document.PlaceOf(at, "shadow"), "stages", "move it to the beginning", "a shadow stage must come before the stages with a weight")
		}
		if smallest := spec.Share(0.001); stage.Weight > 0 && stage.Weight < smallest {
			c.src.Errorf(document.PlaceOf(at, "weight"), "stages", "", "the weight %s is less than the smallest share of traffic, %s", stage.Weight, smallest)
		}
		if hasWeight {
			weight = stage.Weight
			checkDelta(sp, c, s, i)
		}
		checkReach(sp, c, s, i)
		checkLeast(sp, c, at, stage)
	}
	if last := len(sp.Stages) - 1; sp.Stages[last].Weight != 1 && !isComputed(stages.Content[last], "weight") && !c.src.Findings.HasErrorAt(stages.Content[last]) {
		c.src.Errorf(stages.Content[last], "stages", "add {weight: 100%}", "the last stage must have the weight 100%%")
	}
}

// checkDelta reports checks of a stage that compares no answers.
func checkDelta(sp *spec.Rollout, c *checker, s *step, stage int) {
	if c.env != nil && c.env.Targets[sp.Target].Protocol() != spec.ProtocolOIP {
		return // nothing is compared there at all, which is reported
	}
	for _, at := range document.Items(document.Lookup(s.body, "stages", stage, "checks")) {
		if readsDelta.MatchString(at.Value) {
			c.src.Errorf(at, "stages", "write it in a stage with `shadow: 100%`", "answers are compared in a stage with `shadow`, and not in one with `weight`")
		}
	}
}

// checkReach warns of a stage that needs more answers than the replayed rows can give it.
func checkReach(sp *spec.Rollout, c *checker, s *step, stage int) {
	at := document.Lookup(s.body, "stages", stage)
	st, rps := sp.Stages[stage], document.Lookup(s.body, "traffic", "rps")
	defaults := spec.DefaultsOf[spec.Stage]()
	share, wait, needed := max(st.Shadow, st.Weight), cmp.Or(st.MaxWait, defaults.MaxWait), cmp.Or(st.MinSamples, defaults.MinSamples)
	if share == 0 || rps == nil || sp.Traffic.RPS == 0 || isComputed(at, "max_wait") || isComputed(at, "min_samples") || st.OnNoData == "hold" {
		return
	}
	if most := int64(sp.Traffic.RPS * float64(share) * time.Duration(wait).Seconds()); most < needed {
		c.src.Warnf(document.PlaceOf(at, "min_samples"), "stages", "raise `rps` or `max_wait`",
			"the stage needs %d answers, but rows that are replayed with `rps: %s` give it %d within `max_wait: %s`", needed, rps.Value, most, wait)
	}
}

// checkLeast warns of a stage whose samples are too few for its tests.
func checkLeast(sp *spec.Rollout, c *checker, at *yaml.Node, stage spec.Stage) {
	samples := document.Lookup(at, "min_samples")
	share := float64(stage.Weight)
	if stage.Shadow > 0 {
		share = 0.5 // of the errors that only one of both makes
	}
	if samples == nil || isComputed(at, "min_samples") || share == 0 {
		return
	}
	least := spec.LeastErrors(share, cmp.Or(sp.Tests.Errors.Alpha, spec.DefaultsOf[spec.ErrorTest]().Alpha), 0)
	if stage.MinSamples > 0 && stage.MinSamples < least {
		c.src.Warnf(samples, "stages", "write at least `min_samples: "+strconv.FormatInt(least, 10)+"`",
			"with %d samples no test can find a candidate that fails every request: the stage takes at least %d", stage.MinSamples, least)
	}
}

// isComputed reports whether a key's value is an expression.
func isComputed(n *yaml.Node, key string) bool {
	at := document.Lookup(n, key)
	return at != nil && at.Kind == yaml.ScalarNode && strings.Contains(at.Value, "${")
}

// isShare reports whether a share of traffic is written as it must be.
func isShare(s string) bool {
	_, err := spec.ParseShare(s)
	return err == nil
}

var (
	readsTokens = regexp.MustCompile(`\b(candidate|stable)\.(first_token_|tokens_per_s\b)`)
	readsDelta  = regexp.MustCompile(`\bdelta\.`)
	readsLoss   = regexp.MustCompile(`\b(candidate|stable)\.loss\b`)
)

// checkProtocol reports what a rollout wants to compare that a target with a protocol does not show.
func checkProtocol(c *checker, s *step, sp *spec.Rollout, protocol string) {
	of := sp.Tests.Latency.Of
	if at := document.Lookup(s.body, "tests", "latency", "of"); at != nil && of != "answer" && protocol != spec.ProtocolOpenAI {
		c.src.Errorf(at, "target", "leave it out, or release to a target with `protocol: openai`", "no tokens are seen at the target `%s`", sp.Target)
	}
	for i, stage := range sp.Stages {
		for j, check := range stage.Checks {
			at := document.Lookup(s.body, "stages", i, "checks", j)
			switch {
			case at == nil:
			case protocol != spec.ProtocolOpenAI && readsTokens.MatchString(string(check)):
				c.src.Errorf(at, "target", "release to a target with `protocol: openai`", "no tokens are seen at the target `%s`", sp.Target)
			case protocol != spec.ProtocolOIP && readsDelta.MatchString(string(check)):
				c.src.Errorf(at, "target", "", "the target `%s` passes answers back unread, so they cannot be compared", sp.Target)
			}
		}
	}
	if protocol == spec.ProtocolOIP {
		return
	}
	if at := document.Lookup(s.body, "traffic", "replay"); at != nil {
		c.src.Errorf(at, "target", "send requests from a `run` step", "the target `%s` passes requests on unread, so rows cannot be replayed to it", sp.Target)
	}
	if at := document.Lookup(s.body, "warm_up"); at != nil {
		c.src.Errorf(at, "target", "leave it out", "the target `%s` passes requests on unread, so a model cannot be warmed up with rows", sp.Target)
	}
	for _, keys := range [][]any{{"compare"}, {"tests", "loss"}} {
		if at := document.Lookup(s.body, keys...); at != nil {
			c.src.Errorf(at, "target", "leave it out: such releases are evaluated by status and latency", "the target `%s` passes answers back unread, so they cannot be compared", sp.Target)
		}
	}
	for i, stage := range sp.Stages {
		if at := document.Lookup(s.body, "stages", i, "shadow"); at != nil && stage.Shadow > 0 {
			c.src.Errorf(at, "target", "begin with a small weight", "the target `%s` passes answers back unread, so a shadow's cannot be compared", sp.Target)
		}
	}
}
