package schedule

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/activities/contract"
)

// Plan is what applying a pipeline's triggers does.
type Plan struct {
	Pipeline string                   `json:"pipeline"`
	Changes  []contract.TriggerChange `json:"changes"`

	want map[string]Declared // the triggers that should be on the server, by pipeline/trigger
}

// Empty reports whether there is nothing to do.
func (p Plan) Empty() bool {
	return !slices.ContainsFunc(p.Changes, func(c contract.TriggerChange) bool { return c.Action != contract.TriggerKeep })
}

// newPlan compares what is wanted with what was found. Both are in the order of their names.
func newPlan(pipeline string, want []Declared, found []mark) (Plan, error) {
	plan := Plan{Pipeline: pipeline, Changes: []contract.TriggerChange{}, want: map[string]Declared{}}
	for _, d := range want {
		change := contract.TriggerChange{Trigger: d.id(), Kind: d.Kind, Action: contract.TriggerCreate}
		var old map[string]string
		if at := slices.IndexFunc(found, func(m mark) bool { return m.Trigger == d.Trigger }); at >= 0 {
			was := found[at]
			found = slices.Delete(slices.Clone(found), at, at+1)
			d.Since = was.Since
			if was.Digest == d.Digest {
				change.Action, plan.want[d.id()] = contract.TriggerKeep, d
				plan.Changes = append(plan.Changes, change)
				continue
			}
			change.Action = contract.TriggerUpdate
			var err error
			if old, err = was.fields(); err != nil {
				return plan, err
			}
		}
		fields, err := d.fields()
		if err != nil {
			return plan, err
		}
		if change.Fields = fieldChanges(old, fields); len(change.Fields) == 0 {
			change.Fields = []contract.FieldChange{{Field: "form", Old: "of another version of Sluice", New: "of this one"}}
		}
		plan.Changes, plan.want[d.id()] = append(plan.Changes, change), d
	}
	for _, m := range found {
		plan.Changes = append(plan.Changes, contract.TriggerChange{Trigger: m.id(), Kind: m.Kind, Action: contract.TriggerDelete})
	}
	return plan, nil
}

// fields returns the parts of a trigger as text, under the names that users know.
func (m mark) fields() (map[string]string, error) {
	raw, err := json.Marshal(m.Spec)
	if err != nil {
		return nil, fmt.Errorf("encode trigger %s: %w", m.Trigger, err)
	}
	var kinds map[string]map[string]json.RawMessage
	if err := json.Unmarshal(raw, &kinds); err != nil {
		return nil, fmt.Errorf("encode trigger %s: %w", m.Trigger, err)
	}
	fields := map[string]string{"kind": m.Kind, "submission": short(m.Submission)}
	for kind, keys := range kinds {
		for key, value := range keys {
			if kind == "params" {
				key = "params." + key
			}
			text := string(value)
			if unquoted := ""; json.Unmarshal(value, &unquoted) == nil {
				text = unquoted
			}
			fields[key] = text
		}
	}
	return fields, nil
}

// short shortens a digest for people.
func short(digest string) string {
	hex := strings.TrimPrefix(digest, "sha256:")
	return hex[:min(12, len(hex))]
}

func fieldChanges(was, is map[string]string) []contract.FieldChange {
	all := maps.Clone(is)
	maps.Copy(all, was)
	var changes []contract.FieldChange
	for _, field := range slices.Sorted(maps.Keys(all)) {
		if was[field] != is[field] {
			changes = append(changes, contract.FieldChange{Field: field, Old: was[field], New: is[field]})
		}
	}
	return changes
}
