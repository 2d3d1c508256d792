package dsl

import (
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/decode"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// checkTimes reports times of a step that never pass, because another ends it before.
func (c *checker) checkTimes(s *step) {
	retry := document.Lookup(s.own, "retry")
	for key := range document.Entries(retry) {
		if s.Retry.Attempts == 1 && key.Value != "attempts" && decode.HasKey(reflect.TypeFor[spec.Retry](), key.Value) {
			c.src.Warnf(key, "range", "write `attempts: 2` or more, or remove it", "`%s` has no effect: with `attempts: 1` nothing is tried again", key.Value)
			break
		}
	}
	errors := document.Lookup(retry, "errors")
	if errors != nil && errors.Kind == yaml.SequenceNode && len(errors.Content) == 0 {
		c.src.Errorf(errors, "required", "write `attempts: 1` to try it once, or remove it for infrastructure alone", "the list of errors is empty")
	}
	document.CheckTwice(c.src, errors)
	if ignored := document.Lookup(s.body, "hang"); document.TextAt(ignored, "action") == spec.HangIgnore && len(ignored.Content) > 2 {
		c.src.Warnf(document.KeyNode(ignored, "action"), "range", "write `action: warn`, or remove the others", "with `action: ignore` nothing else of `hang` has an effect")
	}
	at := document.PlaceOf(s.node, "timeout")
	switch sp := s.known.(type) {
	case *spec.Train:
		c.checkTrainTimes(s, sp)
	case *spec.Rollout:
		if bakes := s.waits(); s.Timeout > 0 && bakes > s.Timeout {
			c.src.Errorf(at, "range", "raise it, or remove it for no limit", "`timeout: %s` ends the rollout before it is done: its stages bake for %s", s.Timeout, bakes)
		}
	case *spec.ChildPipeline:
		if child := c.compiled[s]; child != nil && s.Timeout > 0 && child.waits > s.Timeout {
			c.src.Warnf(at, "range", "raise it, or remove it for no limit", "`timeout: %s` may end the child before it is done: a step of it may take %s", s.Timeout, child.waits)
		}
	}
}

// checkTrainTimes warns of a time that is longer than a training may take.
func (c *checker) checkTrainTimes(s *step, sp *spec.Train) {
	limits := map[string]spec.Duration{}
	if document.Lookup(s.own, "timeout") != nil { // a default is for steps of any kind
		limits["timeout"] = s.Timeout
	}
	if sp.Deadline != nil {
		limits["deadline.within"] = sp.Deadline.Within
	}
	for _, path := range [][]any{{"deadline", "within"}, {"deadline", "work"}, {"hang", "after"}, {"hang", "startup"}, {"checkpoint", "every"}, {"resources", "idle", "for"}} {
		at := document.Lookup(s.body, path...)
		if at == nil {
			continue
		}
		name := fmt.Sprintf("%v.%v", path[0], path[len(path)-1])
		for _, key := range []string{"timeout", "deadline.within"} {
			limit := limits[key]
			d, err := spec.ParseDuration(at.Value)
			if err != nil || limit == 0 || d <= limit || strings.HasPrefix(name, "deadline") && key != "timeout" {
				continue
			}
			c.src.Warnf(at, "range", "shorten it, or raise `"+key+"`", "`%s: %s` is longer than `%s: %s`, which ends the training before", name, at.Value, key, limit)
			return
		}
	}
}

// waits is how long a step takes at least, or may wait for a person, as far as it says so.
func (s *step) waits() (total spec.Duration) {
	switch sp := s.known.(type) {
	case *spec.Rollout:
		for _, stage := range sp.Stages {
			total += stage.Bake
		}
	case *spec.Approval:
		if document.Lookup(s.body, "timeout") != nil && sp.Timeout != nil {
			total = *sp.Timeout
		}
	}
	return total
}

// longestWait is that of the step that waits longest, or of one of a child.
func (c *checker) longestWait() (longest spec.Duration) {
	for _, s := range c.steps {
		longest = max(longest, s.waits())
		if document.Lookup(s.own, "timeout") != nil {
			longest = max(longest, s.Timeout)
		}
		if child := c.compiled[s]; child != nil {
			longest = max(longest, child.waits)
		}
	}
	return longest
}
