package engine

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// The parts of a key that stand for the results of other steps, and for what an instance is about.
const (
	partNeeds  = "needs"
	partItem   = "item"
	partMatrix = "matrix"
)

// addNeeds adds the results that a step depends on without being given them: those of the steps that it needs. A step whose results are not
// cached decides or has an effect, which may be about everything that came before; all of it is added. An instance depends on what it is
// about, and not on the other elements of a list that only its `foreach` or `matrix` reads. Steps of a child also need what the step that runs
// the child does.
func (e *Engine) addNeeds(
	ctx context.Context, sub *Submitted, at record.StepRef, node spec.Node, vars spec.Vars, cached bool, parts map[string]string,
) error {
	run, err := e.record(ctx, at.Run)
	if err != nil {
		return err
	}
	listed := map[string]bool{}
	if vars.Instance != nil {
		listed = sub.Program.Listed(node.ID)
	}
	results := map[string]spec.StepResult{}
	var add func(id string) error
	add = func(id string) error {
		for up := range sub.Program.Needs(id) {
			if _, has := results[up]; has || id == node.ID && listed[up] {
				continue
			}
			result, known := vars.Steps[up]
			if !known {
				if result, err = e.result(ctx, at.Run, up); errors.Is(err, store.ErrNotFound) {
					return fault.New(fault.Lost, err.Error(), err)
				} else if err != nil {
					return err
				}
			}
			results[up], parts[partNeeds+"."+up] = result, result.Digest
			if !cached {
				if err := add(up); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := add(node.ID); err != nil {
		return err
	}
	above := run.Parent.Needs.All
	if cached {
		above = run.Parent.Needs.Direct
	}
	if above != "" && (!cached || len(results) == 0) {
		parts[partNeeds] = above
	}
	if of := vars.Instance; of != nil && (!cached || len(listed) > 0) {
		if of.Item != nil {
			parts[partItem] = ShortDigest(withoutAsides(of.Item, e.asidesOf(run, listed)))
		}
		if of.Matrix != nil {
			parts[partMatrix] = ShortDigest(withoutAsides(of.Matrix, nil))
		}
	}
	return nil
}

// needsOf are what the steps of a child need of the step that runs it, by the parts of its key.
func (e *Engine) needsOf(ctx context.Context, sub *Submitted, at record.StepRef, parts map[string]string) (record.Needs, error) {
	run, err := e.record(ctx, at.Run)
	direct, all := map[string]string{}, map[string]string{}
	for name, part := range parts {
		id, isNeed := strings.CutPrefix(name, partNeeds+".")
		_, isDirect := sub.Program.Needs(at.Step)[id]
		isOwn := name == partItem || name == partMatrix
		if isOwn || isNeed && isDirect {
			direct[name] = part
		}
		if isOwn || isNeed || name == partNeeds {
			all[name] = part
		}
	}
	if len(direct) == 0 && run != nil && run.Parent.Needs.Direct != "" {
		direct[partNeeds] = run.Parent.Needs.Direct
	}
	var needs record.Needs
	if len(direct) > 0 {
		needs.Direct = keyOf(direct)
	}
	if len(all) > 0 {
		needs.All = keyOf(all)
	}
	return needs, err
}

// asidesOf are the asides of some steps of a run.
func (e *Engine) asidesOf(run *begun, steps map[string]bool) (asides []string) {
	for id := range steps {
		asides = append(asides, kinds[run.nodes[id].Kind].asides...)
	}
	return asides
}

// digestOf stands for the result of a step in the keys of steps that need it: its outputs, else what it did. What came of nothing is its
// status, and a result whose key does not stand for it is like no other.
func digestOf(rec record.StepRecord, outputs json.RawMessage) string {
	switch rec.Status {
	case spec.StatusSucceeded:
	case spec.StatusFailed, spec.StatusDeclined:
		return string(rec.Status) + " " + rec.Key
	default:
		return string(rec.Status)
	}
	if rec.Result != "" {
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
	var same []byte
	var err error
	if json.Unmarshal(raw, &fields) != nil || fields == nil {
		same, err = json.Marshal(raw)
	} else {
		for _, name := range asides {
			delete(fields, name)
		}
		same, err = json.Marshal(fields)
	}
	if err != nil { // there is nothing, or it is not JSON
		return bytes.TrimSpace(raw)
	}
	return same
}

// addInstance adds the result of an instance to what stands for its step's.
func addInstance(sum io.Writer, of spec.Instance, asides []string, rec record.StepRecord) {
	fmt.Fprintf(sum, "%d %s %s %s\n", of.Index, withoutAsides(of.Item, asides), withoutAsides(of.Matrix, nil), digestOf(rec, rec.Outputs)) //nolint:errcheck // a hash takes everything
}
