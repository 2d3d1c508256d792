package engine

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// partNeeds is the part of a key that stands for what the step needs that runs a child pipeline, and begins those for the results of other
// steps; partItem stands for what an instance is about.
const partNeeds, partItem = "needs", "item"

// addNeeds adds the results that a step depends on without being given them: those of the steps that it needs. A step whose results are not
// cached decides or has an effect, which may be about everything that came before; all of it is added. An instance depends on what it is
// about, and not on the other elements of a list that its `foreach` or `matrix` reads. Steps of a child also need what the step that runs the
// child does.
func (e *Engine) addNeeds(
	ctx context.Context, sub *Submitted, run string, node spec.Node, vars spec.Vars, cached bool, parts map[string]string,
) error {
	rec, err := e.record(ctx, run)
	if err != nil {
		return err
	}
	listed := sub.Program.Listed(node.ID)
	for id := range e.before(sub.Program, node.ID, cached) {
		result, known := vars.Steps[id]
		switch {
		case vars.Instance != nil && listed[id]:
			continue
		case !known:
			if result, err = e.result(ctx, run, id); errors.Is(err, store.ErrNotFound) {
				return fault.New(fault.Lost, err.Error(), err)
			} else if err != nil {
				return err
			}
		}
		parts[partNeeds+"."+id] = result.Digest
	}
	if above := rec.Parent.Needs; !cached && above.All != "" {
		parts[partNeeds] = above.All
	} else if above.Direct != "" && len(node.Needs) == 0 {
		parts[partNeeds] = above.Direct
	}
	if of := vars.Instance; of != nil && node.Fan != spec.FanRepeat && (!cached || len(listed) > 0) {
		parts[partItem] = ShortDigest(fmt.Appendf(nil, "%s %s", withoutAsides(of.Item, rec.asides(listed)), withoutAsides(of.Matrix, nil)))
	}
	return nil
}

// before returns the steps that a step needs; if its results are not cached, with those that these need, and so on.
func (e *Engine) before(program *dsl.Program, id string, cached bool) map[string]bool {
	needed := map[string]bool{}
	for todo := []string{id}; len(todo) > 0; todo = todo[1:] {
		for up := range program.Needs(todo[0]) {
			if !needed[up] && !cached {
				todo = append(todo, up)
			}
			needed[up] = true
		}
	}
	return needed
}

// needsOf are what the steps of a child need of the step that runs it, by the parts of its key.
func needsOf(program *dsl.Program, step string, parts map[string]string) (needs record.Needs) {
	direct, all := map[string]string{}, map[string]string{}
	for name, part := range parts {
		id, isNeed := strings.CutPrefix(name, partNeeds+".")
		if _, isDirect := program.Needs(step)[id]; isDirect || name == partItem {
			direct[name] = part
		}
		if isNeed || name == partNeeds || name == partItem {
			all[name] = part
		}
	}
	if len(direct) > 0 {
		needs.Direct = keyOf(direct)
	}
	if len(all) > 0 {
		needs.All = keyOf(all)
	}
	return needs
}

// isStillSo reports whether an approval of an earlier run counts for a run: not if what the steps before it read of other runs has changed
// since, except by the earlier run itself.
func (e *Engine) isStillSo(ctx context.Context, program *dsl.Program, node spec.Node, earlier, run string) (bool, error) {
	if !slices.ContainsFunc(slices.Collect(maps.Keys(e.before(program, node.ID, false))), program.ReadsOutside) {
		return true, nil
	}
	then, err := e.record(ctx, earlier)
	if err != nil {
		return false, err
	}
	now, err := e.record(ctx, run)
	if err != nil {
		return false, err
	}
	isSame := func(was, is string) bool { return was == is || record.InFamily(is, earlier) }
	same := isSame(then.Last, now.Last)
	for target := range program.Environment().Targets {
		same = same && isSame(then.Serving[target], now.Serving[target])
	}
	return same, nil
}

// asides are those of some steps of a run.
func (b *begun) asides(steps map[string]bool) (asides []string) {
	for id := range steps {
		asides = append(asides, kinds[b.nodes[id].Kind].asides...)
	}
	return asides
}

// digestOf stands for the result of a step in the keys of steps that need it: its outputs, else what it did. What came of nothing is its
// status, and a result whose key does not stand for it is like no other.
func digestOf(rec record.StepRecord, outputs json.RawMessage) string {
	switch {
	case rec.Status == spec.StatusFailed || rec.Status == spec.StatusDeclined:
		return string(rec.Status) + " " + rec.Key
	case rec.Status != spec.StatusSucceeded:
		return string(rec.Status)
	case rec.Result != "":
		return rec.Result
	}
	left := withoutAsides(outputs, kinds[rec.Kind].asides)
	switch said := string(left); {
	case said != "" && said != "null" && said != "{}" && said != `{"metrics":{}}`:
		return ShortDigest(left)
	case rec.Key != "":
		return rec.Key
	}
	return rand.Text()
}

// withoutAsides is JSON, always written in the same way, without some keys of an object.
func withoutAsides(raw json.RawMessage, asides []string) []byte {
	var fields map[string]json.RawMessage
	var value any = raw
	if json.Unmarshal(raw, &fields) == nil && fields != nil {
		for _, name := range asides {
			delete(fields, name)
		}
		value = fields
	}
	same, err := json.Marshal(value)
	if err != nil { // there is nothing, or it is not JSON
		return bytes.TrimSpace(raw)
	}
	return same
}

// addInstance adds the result of an instance to what stands for its step's.
func addInstance(sum io.Writer, of spec.Instance, asides []string, rec record.StepRecord) {
	fmt.Fprintf(sum, "%d %s %s %s\n", of.Index, withoutAsides(of.Item, asides), withoutAsides(of.Matrix, nil), digestOf(rec, rec.Outputs)) //nolint:errcheck // a hash takes everything
}
