package schedule

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Action is what applying does to a trigger.
type Action string

// What applying may do to a trigger.
const (
	Create Action = "create"
	Update Action = "update"
	Delete Action = "delete"
	Keep   Action = "keep" // it is on the server as declared
)

// FieldChange is one field of a trigger that is not what it was. An empty side means that it is absent there.
type FieldChange struct {
	Field string `json:"field"`
	Old   string `json:"old,omitempty"`
	New   string `json:"new,omitempty"`
}

// Change is what applying does to one trigger, and why.
type Change struct {
	// Trigger is pipeline/trigger.
	Trigger string        `json:"trigger"`
	Kind    string        `json:"kind"`
	Action  Action        `json:"action"`
	Fields  []FieldChange `json:"fields,omitempty"`

	want Declared // of create and update
}

// Plan is what applying a pipeline's triggers does.
type Plan struct {
	Pipeline string   `json:"pipeline"`
	Changes  []Change `json:"changes"`
}

// Empty reports whether there is nothing to do.
func (p Plan) Empty() bool {
	return !slices.ContainsFunc(p.Changes, func(c Change) bool { return c.Action != Keep })
}

// newPlan compares what is wanted with what was found. Both are in the order of their names.
func newPlan(pipeline string, want []Declared, found []mark) (Plan, error) {
	plan := Plan{Pipeline: pipeline, Changes: []Change{}}
	for _, d := range want {
		change := Change{Trigger: d.id(), Kind: d.Kind, Action: Create, want: d}
		var old map[string]string
		if at := slices.IndexFunc(found, func(m mark) bool { return m.Trigger == d.Trigger }); at >= 0 {
			was := found[at]
			found = slices.Delete(slices.Clone(found), at, at+1)
			change.want.Since = was.Since
			if was.Digest == d.Digest {
				change.Action = Keep
				plan.Changes = append(plan.Changes, change)
				continue
			}
			change.Action = Update
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
			change.Fields = []FieldChange{{Field: "form", Old: "of another version of Sluice", New: "of this one"}}
		}
		plan.Changes = append(plan.Changes, change)
	}
	for _, m := range found {
		plan.Changes = append(plan.Changes, Change{Trigger: m.id(), Kind: m.Kind, Action: Delete})
	}
	return plan, nil
}

// fields are what a person would call the parts of a trigger, as text.
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

// short is a digest for people.
func short(digest string) string {
	hex := strings.TrimPrefix(digest, "sha256:")
	return hex[:min(12, len(hex))]
}

func fieldChanges(was, is map[string]string) []FieldChange {
	all := maps.Clone(is)
	maps.Copy(all, was)
	var changes []FieldChange
	for _, field := range slices.Sorted(maps.Keys(all)) {
		if was[field] != is[field] {
			changes = append(changes, FieldChange{Field: field, Old: was[field], New: is[field]})
		}
	}
	return changes
}
