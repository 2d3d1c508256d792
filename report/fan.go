package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/store/record"
)

// fan is a step with instances.
type fan struct {
	record.StepRecord
	Instances []instance
	// More is how many are not listed.
	More int
	// Extremes are the numbers of which one that passed has the largest, and which has it.
	Extremes []field
}

type instance struct {
	record.StepRecord
	ID string
	// Subject is what the instance is about.
	Subject []field
	Seconds float64
	Result  string
}

func newFan(s record.StepRecord, all Instances, now time.Time) fan {
	f := fan{StepRecord: s, More: max(0, all.Total-len(all.Records))}
	for _, r := range all.Records {
		one := instance{StepRecord: r, ID: s.Step + "." + strconv.Itoa(r.Index), Subject: subject(r), Seconds: span(r.StartedAt, r.EndedAt, now)}
		if one.Result = Brief(r); r.Status != spec.StatusSucceeded {
			one.Result = human.Line(r.Error)
		}
		f.Instances = append(f.Instances, one)
	}
	f.Extremes = extremes(f.Instances)
	return f
}

// extremes says for each number that instances handed on which of them has the largest and the smallest; nothing of one that all agree on.
func extremes(all []instance) []field {
	type at struct {
		value float64
		id    string
	}
	largest, smallest := map[string]at{}, map[string]at{}
	for _, one := range all {
		if one.Status != spec.StatusSucceeded {
			continue
		}
		for name, value := range numbersOf(one.Outputs) {
			if l, ok := largest[name]; !ok || value > l.value {
				largest[name] = at{value, one.ID}
			}
			if s, ok := smallest[name]; !ok || value < s.value {
				smallest[name] = at{value, one.ID}
			}
		}
	}
	var found []field
	for _, name := range slices.Sorted(maps.Keys(largest)) {
		if l, s := largest[name], smallest[name]; l.value != s.value {
			found = append(found, field{name, fmt.Sprintf("largest of %s (%s), smallest of %s (%s)", l.id, human.Precise(l.value), s.id, human.Precise(s.value))})
		}
	}
	return found
}

// numbersOf are the numbers among outputs, and their metrics.
func numbersOf(raw json.RawMessage) map[string]float64 {
	var outputs map[string]json.RawMessage
	if json.Unmarshal(raw, &outputs) != nil {
		return nil
	}
	numbers := map[string]float64{}
	for name, value := range outputs {
		var number *float64
		if json.Unmarshal(value, &number) == nil && number != nil {
			numbers[name] = *number
		}
	}
	var metrics map[string]float64
	if json.Unmarshal(outputs["metrics"], &metrics) == nil {
		maps.Copy(numbers, metrics)
	}
	return numbers
}

func subject(r record.StepRecord) []field {
	switch subject := r.Subject().(type) {
	case nil:
		return nil
	case map[string]any:
		return fields(subject)
	default:
		return []field{{"item", human.Value(subject)}}
	}
}

// isList reports whether a step's outputs are a list of those of its instances.
func isList(s record.StepRecord) bool {
	return s.Of > 0 && bytes.HasPrefix(bytes.TrimSpace(s.Outputs), []byte("["))
}

// decision is a person's word on a step.
type decision struct {
	Step string
	record.Decision
	Saw []field
}

// Decided are the words on a gate that held, in the order in which people were asked, or that on an approval.
func Decided(s record.StepRecord) []record.Decision {
	if s.Decision != nil {
		return append(slices.Clone(s.Earlier), *s.Decision)
	}
	if decided := kinds[s.Kind].decided; decided != nil {
		return decided(s)
	}
	return nil
}

// decidedByApproval is the decision on an approval: its outputs.
func decidedByApproval(s record.StepRecord) []record.Decision {
	var given spec.Values
	if json.Unmarshal(s.Outputs, &given) != nil {
		return nil
	}
	d := record.Decision{Approved: s.Status == spec.StatusSucceeded, Fields: given}
	d.By, _ = given["by"].(string)
	d.Reason, _ = given["reason"].(string)
	if at, ok := given["at"].(string); ok {
		d.At, _ = time.Parse(time.RFC3339Nano, at)
	}
	for _, fixed := range []string{"by", "reason", "at"} {
		delete(given, fixed)
	}
	return []record.Decision{d}
}
