package look

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store/record"
)

func TestFilter(t *testing.T) {
	zone := time.FixedZone("east", 2*60*60)
	now := time.Date(2026, 3, 14, 12, 0, 0, 0, zone)
	runs := []record.RunRecord{ // newest first
		{Run: "d", Pipeline: "spam", Status: spec.StatusRunning, StartedAt: now, Params: spec.Values{"n": int64(8), "seed": int64(9007199254740993), "name": "8", "fast": true, "of": []any{int64(1), "a"}}},
		{Run: "c", Pipeline: "ham", Status: spec.StatusFailed, StartedAt: now.Add(-time.Hour), Params: spec.Values{"n": 0.1, "seed": int64(9007199254740992)}},
		{Run: "b", Pipeline: "spam", Status: spec.StatusSucceeded, StartedAt: now.Add(-12 * time.Hour)}, // the midnight that the day began with
		{Run: "a", Pipeline: "spam", Status: spec.StatusCanceled, StartedAt: now.AddDate(0, 0, -7)},
	}
	tests := []struct {
		args []string
		want string
		err  string
	}{
		{want: "dcba"},
		{args: []string{"--pipeline", "spam"}, want: "dba"},
		{args: []string{"--pipeline", "spam,ham", "--limit", "2"}, want: "dc"},
		{args: []string{"--status", "failed,canceled"}, want: "ca"},
		{args: []string{"--status", "upstream"}, err: "--status must be one of running"},
		{args: []string{"--since", "90m"}, want: "dc"},
		{args: []string{"--since", "7d"}, want: "dcba"},
		{args: []string{"--since", "6d"}, want: "dcb"},
		{args: []string{"--since", "2026-03-14"}, want: "dcb"},
		{args: []string{"--since", "2026-03-14T00:01"}, want: "dc"},
		{args: []string{"--since", "2026-03-14T09:00:00Z"}, want: "dc"},
		{args: []string{"--since", "yesterday"}, err: `not "yesterday"`},
		{args: []string{"-p", "n=8"}, want: "d"},
		{args: []string{"-p", "n=8.0"}, want: "d"},
		{args: []string{"-p", "n=8 8"}, want: ""},
		{args: []string{"-p", "seed=9007199254740993"}, want: "d"},
		{args: []string{"-p", `of=[1.0, "a"]`}, want: "d"},
		{args: []string{"-p", "n=8", "-p", "fast=true", "-p", "name=8"}, want: "d"},
		{args: []string{"-p", "n=0.10"}, want: "c"},
		{args: []string{"-p", "name=9"}, want: ""},
		{args: []string{"-p", "name"}, err: "-p needs name=value"},
		{args: []string{"--limit", "-1"}, err: "--limit must be a number"},
		{args: []string{"--pipeline", "spam", "--since", "1h", "--status", "failed"}, want: ""},
	}
	for _, tt := range tests {
		cmd := NewList()
		var f filter
		cmd.ResetFlags()
		f.add(cmd)
		if err := cmd.ParseFlags(tt.args); err != nil {
			t.Fatal(err)
		}
		got := ""
		err := f.parse(cmd, now)
		for _, r := range f.apply(runs) {
			got += r.Run
		}
		switch {
		case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
			t.Errorf("%v: got %v, want an error that says %s", tt.args, err, tt.err)
		case tt.err == "" && err != nil:
			t.Errorf("%v: %v", tt.args, err)
		case tt.err == "":
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%v: (-want +got):\n%s", tt.args, diff)
			}
		}
	}
}
