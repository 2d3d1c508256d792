package record

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/exactjson"
	"github.com/sluiceml/sluice/store"
)

// Subject returns what an instance is about, or nil if the record is not that of an instance: the values of its axes by name, or its item.
// For an item that is an instance of another step, it is the subject of that instance. For any other mapping, it is the values that are
// neither mappings nor lists, if there are any.
func (s StepRecord) Subject() any {
	if axes, err := exactjson.Value(s.Matrix); err == nil && axes != nil {
		return axes
	}
	item, _ := exactjson.Value(s.Item) // an instance of a matrix has none
	return subjectOf(item)
}

func subjectOf(item any) any {
	fields, ok := item.(map[string]any)
	if !ok {
		return item
	}
	if _, isInstance := fields["index"]; isInstance {
		for _, of := range []string{"matrix", "item"} {
			if inner, ok := fields[of]; ok {
				return subjectOf(inner)
			}
		}
	}
	short := map[string]any{}
	for name, v := range fields {
		switch v.(type) {
		case map[string]any, []any:
		default:
			short[name] = v
		}
	}
	if len(short) == 0 {
		return item
	}
	return short
}

// LoadInstances reads the records of at most limit instances of a fanned-out step that have ended. Those that did not succeed come first,
// and each group is in the order of the indices. total is how many instances have ended.
func LoadInstances(ctx context.Context, s *store.Store, run, step string, limit int) (records []StepRecord, total int, err error) {
	indices, err := instancesOf(ctx, s, run, step)
	if err != nil {
		return nil, 0, err
	}
	all := make([]StepRecord, len(indices))
	err = store.Each(ctx, len(indices), func(ctx context.Context, i int) (err error) {
		all[i], err = LoadInstance(ctx, s, run, step, indices[i])
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	var well []StepRecord
	for _, record := range all {
		switch {
		case record.Status != spec.StatusSucceeded && len(records) < limit:
			records = append(records, record)
		case record.Status == spec.StatusSucceeded && len(well) < limit:
			well = append(well, record)
		}
	}
	records = append(records, well...)
	return records[:min(limit, len(records))], len(indices), nil
}

// LoadInstance reads the record of one instance; one that has not ended is pending.
func LoadInstance(ctx context.Context, s *store.Store, run, step string, index int) (StepRecord, error) {
	at := StepRef{Run: run, Step: step, Instance: &Instance{Index: index}}
	record := StepRecord{Step: step, Index: index, Status: spec.StatusPending}
	if err := s.GetJSON(ctx, Key(at), &record); err != nil && !errors.Is(err, store.ErrNotFound) {
		return record, fmt.Errorf("the record of %s: %w", at.ID(), err)
	}
	return record, nil
}

// instancesOf lists the indices of the instances that have ended.
func instancesOf(ctx context.Context, s *store.Store, run, step string) ([]int, error) {
	var indices []int
	folder := instancesPrefix(run, step)
	for info, err := range s.Driver().List(ctx, folder) {
		if err != nil {
			return nil, fmt.Errorf("the instances of %s: %w", step, err)
		}
		index, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(info.Key, folder), ".json"))
		if err != nil {
			return nil, fmt.Errorf("the instances of %s: %s is not valid: %w", step, info.Key, err)
		}
		indices = append(indices, index)
	}
	slices.Sort(indices)
	return indices, nil
}
