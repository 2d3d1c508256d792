package engine

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store/record"
)

const readsInPlace = `
params: {path: {type: string}}
steps:
  rows:
    clean:
      transforms:
        - {type: ReadFromCsv, config: {path: "${params.path}"}}
        - {type: WriteToJson}
    CACHE
`

// A cleaning that reads files in place is taken over as long as these are the same, also where the document says that it is cached, and
// a plan says so, or why not.
func TestCleaningThatReadsInPlace(t *testing.T) {
	const bucket = "s3://acme/x.csv?region=eu-central-1"
	ago := time.Now().Add(-time.Hour).Truncate(time.Second)
	write := func(dir, name, content string, changed time.Time) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, changed, changed); err != nil {
			t.Fatal(err)
		}
	}
	same := func(string) {}
	tests := map[string]struct {
		cache, path string
		big         bool // another file has so many bytes that no content is read
		elsewhere   bool
		change      func(dir string)
		hit         bool
		plan        contract.StepPlan // without its run
	}{
		"the same": {path: "*.csv", change: same, hit: true, plan: contract.StepPlan{Action: contract.ActionReuse}},
		"touched": {
			path: "*.csv", change: func(dir string) { write(dir, "a.csv", "id\n1\n", ago.Add(time.Minute)) },
			hit: true, plan: contract.StepPlan{Action: contract.ActionReuse},
		},
		"another row": {
			path: "*.csv", change: func(dir string) { write(dir, "a.csv", "id\n1\n2\n", ago.Add(time.Minute)) },
			plan: contract.StepPlan{Action: contract.ActionRunChanged, Changed: []string{"read.DIR/*.csv"}},
		},
		"as long, with cache: true": {
			cache: "cache: true", path: "*.csv", change: func(dir string) { write(dir, "a.csv", "id\n2\n", ago.Add(time.Minute)) },
			plan: contract.StepPlan{Action: contract.ActionRunChanged, Changed: []string{"read.DIR/*.csv"}},
		},
		"as long and as old": {
			path: "*.csv", change: func(dir string) { write(dir, "a.csv", "id\n2\n", ago) },
			plan: contract.StepPlan{Action: contract.ActionRunChanged, Changed: []string{"read.DIR/*.csv"}},
		},
		"as long and as old, of more bytes than are read": {
			path: "*.csv", big: true, change: func(dir string) { write(dir, "a.csv", "id\n2\n", ago) },
			plan: contract.StepPlan{Action: contract.ActionRunChanged, Changed: []string{"read.DIR/*.csv"}},
		},
		"the same, of more bytes than are read": {path: "*.csv", big: true, change: same, hit: true, plan: contract.StepPlan{Action: contract.ActionReuse}},
		"one more file": {
			path: "*.csv", change: func(dir string) { write(dir, "b.csv", "id\n1\n", ago) },
			plan: contract.StepPlan{Action: contract.ActionRunChanged, Changed: []string{"read.DIR/*.csv"}},
		},
		"no file any more": {
			cache: "cache: true", path: "a.csv", change: func(dir string) { _ = os.Remove(filepath.Join(dir, "a.csv")) },
			plan: contract.StepPlan{Action: contract.ActionRun, Reason: "it would fail: no file matches DIR/a.csv"},
		},
		"not cached": {
			cache: "cache: false", path: "*.csv", change: same,
			plan: contract.StepPlan{Action: contract.ActionRun, Reason: "its results are not cached"},
		},
		"a bucket": {
			path: bucket, change: same,
			plan: contract.StepPlan{Action: contract.ActionRun, Reason: "it reads files that are not part of its key: s3://acme/x.csv"},
		},
		"a bucket whose files do not change": {
			cache: "cache: true", path: bucket, change: same, hit: true, plan: contract.StepPlan{Action: contract.ActionReuse},
		},
		"a cluster": {
			elsewhere: true, path: "*.csv", change: same,
			plan: contract.StepPlan{
				Action: contract.ActionRun, Reason: "it reads files that are not part of its key, since they are on machines of the cluster: DIR/*.csv",
			},
		},
		"a cluster whose files do not change": {
			cache: "cache: true", elsewhere: true, path: "*.csv", change: same, hit: true, plan: contract.StepPlan{Action: contract.ActionReuse},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			inDir := func(text string) string { return strings.ReplaceAll(text, "DIR", dir) }
			path := tt.path
			if path != bucket {
				path = filepath.Join(dir, path)
			}
			write(dir, "a.csv", "id\n1\n", ago)
			if tt.big {
				write(dir, "z.csv", "id\n", ago)
				if err := os.Truncate(filepath.Join(dir, "z.csv"), inPlaceBytes); err != nil {
					t.Fatal(err)
				}
			}
			b := newBench(t, strings.NewReplacer("CACHE", tt.cache, "{type: string}", "{type: string, default: \""+path+"\"}").Replace(readsInPlace))
			b.engine.Here = !tt.elsewhere
			b.begin("r1")
			b.end("r1", "rows", `{}`)
			b.finish("r1", spec.StatusSucceeded)
			tt.change(dir)

			b.begin("r2")
			resolved, err := b.engine.Resolve(t.Context(), b.at("r2", "rows"))
			if err != nil {
				t.Fatal(err)
			}
			if hit := resolved.Hit == "r1"; hit != tt.hit {
				t.Errorf("taken over: %v, want %v", hit, tt.hit)
			}
			sub, err := b.engine.Submission(t.Context(), b.submission)
			if err != nil {
				t.Fatal(err)
			}
			plan, err := NewPlan(t.Context(), b.engine.Store, PlanInput{
				Submission: sub.Submission, Program: sub.Program, Reuse: record.Reuse{}, Now: b.began, Here: !tt.elsewhere,
			})
			if err != nil {
				t.Fatal(err)
			}
			tt.plan.Reason = inDir(tt.plan.Reason)
			for i, part := range tt.plan.Changed {
				tt.plan.Changed[i] = inDir(part)
			}
			if tt.hit || tt.plan.Changed != nil {
				tt.plan.From = "r1"
			}
			if diff := cmp.Diff(tt.plan, plan.Steps["rows"], cmpopts.IgnoreFields(contract.StepPlan{}, "Seconds", "CostUSD")); diff != "" {
				t.Errorf("the plan (-want +got):\n%s", diff)
			}
		})
	}
}

// TestListInPlace: what a cleaning makes of other files than those that its key was made of is not found by the key.
func TestListInPlace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.csv")
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("id\n1\n")
	pattern := filepath.Join(dir, "*.csv")
	b := newBench(t, strings.NewReplacer("CACHE", "", "{type: string}", "{type: string, default: \""+pattern+"\"}").Replace(readsInPlace))
	b.engine.Here = true
	b.begin("r1")
	resolved, err := b.engine.Resolve(t.Context(), b.at("r1", "rows"))
	if err != nil {
		t.Fatal(err)
	}
	list := func() (InPlace, bool) {
		t.Helper()
		found, keyed, err := b.engine.ListInPlace(t.Context(), resolved.Step.InPlace)
		text, readErr := os.ReadFile(path)
		if err := errors.Join(err, readErr); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]string{path: fmt.Sprintf("sha256:%x", sha256.Sum256(text))}, found.Contents); diff != "" {
			t.Errorf("of %q the contents are (-want +got):\n%s", text, diff)
		}
		return found, keyed
	}
	if found, keyed := list(); !keyed || len(found.Files) != 1 || found.Files[0].Path != path {
		t.Errorf("%+v, keyed %v", found, keyed)
	}
	write("id\n2\n")
	if found, keyed := list(); keyed || len(found.Files) != 1 {
		t.Errorf("of a changed file: %+v, keyed %v", found, keyed)
	}

	// What was made of the changed file is not found by the key of the file before.
	end := contract.StepEnd{
		StepRef: b.at("r1", "rows").StepRef, Kind: spec.KindClean, Status: spec.StatusSucceeded, Key: resolved.Key,
		Output: record.StepOutput{Outputs: json.RawMessage(`{}`), Unkeyed: true},
	}
	if _, err := b.engine.Verdict(t.Context(), end); err != nil {
		t.Fatal(err)
	}
	write("id\n1\n")
	b.begin("r2")
	for _, reuse := range []record.Reuse{{}, {From: "r1"}} {
		in := b.at("r2", "rows")
		in.Reuse = reuse
		if again, err := b.engine.Resolve(t.Context(), in); err != nil || again.Key != resolved.Key || again.Hit != "" {
			t.Errorf("%+v: reused from %q, %v", reuse, again.Hit, err)
		}
	}
}
