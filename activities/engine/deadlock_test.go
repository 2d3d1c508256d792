package engine

import (
	"context"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/document"
)

// held is who holds which group; all runs are open but those in ended.
type held struct {
	by    map[string]string
	ended []string
}

func (h held) Holder(_ context.Context, group string) (string, error) { return h.by[group], nil }

func (h held) Open(_ context.Context, run string) (bool, error) {
	return !strings.Contains(strings.Join(h.ended, " ")+" ", run+" "), nil
}

// TestDeadlock: a child run that waits for a group is told if what holds it waits, below it, for what a run above the child holds.
func TestDeadlock(t *testing.T) {
	const steps = "steps: {one: {run: {command: [echo]}}}\n"
	queue := func(group string) string { return "concurrency: {group: " + group + ", on_conflict: queue}\n" + steps }
	b := newBench(t, queue("two"))
	b.begin("a.c") // a holds `one`, and its child waits for `two`
	b.submit(queue("three"), document.File{})
	b.begin("c.c")
	b.submit(steps, document.File{})
	b.begin("a.free")
	for name, tt := range map[string]struct {
		groups held
		want   []string
	}{
		"a circle of two": {held{by: map[string]string{"one": "a", "two": "b"}}, []string{
			"run b.c waits for the concurrency group `one`, which run a holds", "run a.c waits for the concurrency group `two`, which run b holds",
		}},
		"a circle of three": {held{by: map[string]string{"one": "a", "two": "c", "three": "b"}}, []string{
			"run b.c waits", "run a.c waits for the concurrency group `two`, which run c holds", "run c.c waits for the concurrency group `three`, which run b holds",
		}},
		"its own ancestor holds it":             {held{by: map[string]string{"one": "b"}}, []string{"run b.c waits for the concurrency group `one`, which run b holds"}},
		"somebody else has the other group":     {held{by: map[string]string{"one": "a", "two": "d"}}, nil},
		"the child that waits for it has ended": {held{by: map[string]string{"one": "a", "two": "b"}, ended: []string{"a.c"}}, nil},
		"the child has its group":               {held{by: map[string]string{"one": "a", "two": "a.c"}}, nil},
		"nobody holds it":                       {held{}, nil},
		"a circle that this run is not part of": {held{by: map[string]string{"one": "a", "two": "c", "three": "a"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b.engine.Holder, b.engine.Open = tt.groups.Holder, tt.groups.Open
			why, err := b.engine.Deadlock(t.Context(), contract.DeadlockInput{Run: "b.c", Group: "one"})
			if err != nil || (why == "") != (tt.want == nil) {
				t.Fatalf("%q, %v", why, err)
			}
			for _, part := range tt.want {
				if !strings.Contains(why, part) {
					t.Errorf("%q lacks %q", why, part)
				}
			}
		})
	}
}
