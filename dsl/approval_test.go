package dsl

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
)

func TestCheckFields(t *testing.T) {
	a := &spec.Approval{Fields: map[string]spec.Field{
		"share":  {Type: "int", Default: 10.0},
		"why":    {Type: "enum", Values: []string{"better", "fix"}, Required: true},
		"factor": {Type: "double"},
		"sure":   {Type: "bool"},
		"note":   {Type: "string"},
	}}
	tests := []struct {
		name  string
		given map[string]string
		want  map[string]any
		errs  []string
	}{
		{"defaults", map[string]string{"why": "fix"}, map[string]any{"share": int64(10), "why": "fix"}, nil},
		{
			"all",
			map[string]string{"share": "5", "why": "better", "factor": "1e3", "sure": "true", "note": " a b "},
			map[string]any{"share": int64(5), "why": "better", "factor": 1000.0, "sure": true, "note": "a b"},
			nil,
		},
		{"left empty", map[string]string{"why": "fix", "sure": " ", "share": ""}, map[string]any{"share": int64(10), "why": "fix"}, nil},
		{"wrong", map[string]string{"share": "5.5", "why": "worse", "factor": "NaN", "sure": "yes", "notes": "x"}, nil, []string{
			"`notes` is not a field of this approval: did you mean `note`?", "the field `factor` is \"NaN\", but must be a double",
			"the field `share` is \"5.5\", but must be an int", "the field `sure` is \"yes\", but must be a bool",
			"the field `why` is \"worse\", but must be one of better, fix",
		}},
		{"missing", nil, nil, []string{"the field `why` (one of better, fix) must be given"}},
		{"long", map[string]string{"why": "fix", "note": strings.Repeat("x", spec.MaxField+1)}, nil, []string{"the field `note` is longer than 10000 bytes"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := a.CheckFields(tt.given)
			var errs []string
			if err != nil {
				errs = strings.Split(err.Error(), "\n")
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tt.errs, errs); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestApprovalTimeout: no timeout is three days, and a timeout of nothing is none.
func TestApprovalTimeout(t *testing.T) {
	p := mustCompile(t, `sluice: pipeline/v1
name: p
steps:
  usual: {approval: {}}
  never: {approval: {timeout: 0s}}
  hour: {approval: {timeout: 1h, default: approve}}
`)
	for id, want := range map[string]time.Duration{"usual": 72 * time.Hour, "never": 0, "hour": time.Hour} {
		r, err := p.Resolve(id, spec.Vars{})
		if err != nil {
			t.Fatal(err)
		}
		a, err := spec.Decode[spec.Approval](r.Spec)
		if err != nil {
			t.Fatal(err)
		}
		if time.Duration(*a.Timeout) != want || (a.Default == "approve") != (id == "hour") {
			t.Errorf("%s: %s", id, r.Spec)
		}
	}
}
