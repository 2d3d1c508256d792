package workflows

import (
	"fmt"
	"testing"

	"go.temporal.io/sdk/temporal"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
)

// drawGraph draws a pipeline's graph and how its steps are to end.
func drawGraph(t *rapid.T) ([]spec.Node, *world) {
	w := &world{
		ends: map[string][]error{}, when: map[string]bool{}, gates: map[string]spec.Status{}, of: map[string]int{},
		children: map[string]spec.Status{}, lanes: map[string]error{},
	}
	needs := []spec.Need{spec.NeedPassed, spec.NeedNotFailed, spec.NeedEnded, spec.NeedFailed}
	var graph []spec.Node
	for _, section := range []spec.Section{spec.SectionMain, spec.SectionOnFailure, spec.SectionFinally} {
		first := len(graph)
		for i := range rapid.IntRange(0, 8).Draw(t, "steps"+string(section)) {
			n := in(section, node(fmt.Sprintf("s%d%s", i, section)))
			for _, up := range graph[first:] {
				if rapid.IntRange(0, 2).Draw(t, "edge") == 0 {
					n.After = append(n.After, up.ID)
					n.Needs[up.ID] = rapid.SampledFrom(needs).Draw(t, "need")
				}
			}
			n.ContinueOnError = rapid.IntRange(0, 4).Draw(t, "continue") == 0
			if rapid.IntRange(0, 4).Draw(t, "fan") == 0 {
				n.Fan, n.Require = spec.FanForeach, 1
				w.of[n.ID] = rapid.IntRange(1, 5).Draw(t, "of")
			}
			drawEnd(t, w, &n)
			graph = append(graph, n)
		}
	}
	return graph, w
}

func drawEnd(t *rapid.T, w *world, n *spec.Node) {
	id := n.ID
	if n.Fan != spec.FanNone {
		id += ".0"
	}
	switch rapid.IntRange(0, 9).Draw(t, "end") {
	case 0, 1:
		w.ends[id] = []error{userError()}
	case 4: // by itself, by a person or by another run of its group
		n.Kind, w.children["r."+id] = spec.KindPipeline, spec.StatusCanceled
	case 5:
		n.Kind, w.children["r."+id] = spec.KindPipeline, spec.StatusSkipped
	case 6:
		w.lanes[n.ID] = temporal.NewCanceledError()
	case 2:
		if n.Fan == spec.FanNone {
			w.when[n.ID] = false
		} else {
			w.of[n.ID] = 0
		}
	case 3:
		w.gates[n.ID] = spec.StatusDeclined
	}
}

// allows says what a need asks for, in the words of the reference.
func allows(need spec.Need, up spec.Node, status spec.Status) bool {
	forgiven := status == spec.StatusFailed && up.ContinueOnError // then the run goes on as if the step had been skipped
	switch need {
	case spec.NeedPassed:
		return status == spec.StatusSucceeded
	case spec.NeedNotFailed:
		return status == spec.StatusSucceeded || status == spec.StatusSkipped || forgiven
	case spec.NeedFailed:
		return status == spec.StatusFailed
	case spec.NeedEnded:
	}
	return true
}

// TestAnyGraph: what holds of every run, whatever its graph, its steps' ends and the moment at which it is cancelled.
func TestAnyGraph(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		graph, w := drawGraph(r)
		cancelAfter := rapid.SampledFrom([]int{0, 0, 1, 3, 8}).Draw(r, "cancel after; 0: never")
		long := rapid.SampledFrom([]int{0, 200, 700}).Draw(r, "history grows by") // 0: one history
		follow(t, w, contract.PipelineWorkflow, contract.RunInput{Run: "r", Name: "p", Graph: graph}, func(env *environment, in contract.RunInput) {
			env.grows = long
			if in.Continuation == nil {
				env.cancelAfter = cancelAfter
			}
		})
		checkRun(r, graph, w)
	})
}

func checkRun(t *rapid.T, graph []spec.Node, w *world) {
	byID := map[string]spec.Node{}
	failed, stopped, canceled := false, false, w.finished.Status == spec.StatusCanceled
	for _, n := range graph {
		byID[n.ID] = n
		if !isOver(w.final[n.ID]) {
			t.Fatalf("%s did not end: %q", n.ID, w.final[n.ID])
		}
		if without, status := withoutSuccess(n, w), w.final[n.ID]; w.began[n.ID] > 0 && without != "" && status != without && !canceled {
			t.Errorf("%s ended as %s, want %s", n.ID, status, without)
		}
		if n.Section == spec.SectionMain {
			failed = failed || w.final[n.ID] == spec.StatusFailed && !n.ContinueOnError
			stopped = stopped || w.final[n.ID] == spec.StatusCanceled
		}
	}
	if stopped && !canceled {
		t.Errorf("a step was canceled, and the run ended as %s", w.finished.Status)
	}
	for _, n := range graph {
		ran, met := w.began[n.ID] > 0, true
		for _, id := range n.After {
			met = met && allows(n.Needs[id], byID[id], w.final[id])
			if ran && w.ended[id] > w.began[n.ID] {
				t.Errorf("%s began before %s had ended", n.ID, id)
			}
		}
		wanted := met
		switch n.Section {
		case spec.SectionMain:
			wanted = met && w.final[n.ID] != spec.StatusCanceled
		case spec.SectionOnFailure:
			if canceled && !failed && !stopped {
				continue // it may have been cancelled before them, or after
			}
			wanted = met && (failed || stopped)
		case spec.SectionFinally:
		}
		if ran && !met || wanted && !ran || n.Section != spec.SectionMain && ran != wanted {
			t.Errorf("%s ended as %s; it ran: %v; its needs are met: %v", n.ID, w.final[n.ID], ran, met)
		}
	}
	if want := endOf(graph, w); !canceled && w.finished.Status != want {
		t.Errorf("the run ended as %s, want %s: %v", w.finished.Status, want, w.final)
	}
}

// withoutSuccess is how a step ends that was begun, and with it a child or a lane that did not succeed; empty for other steps.
func withoutSuccess(n spec.Node, w *world) spec.Status {
	id := n.ID
	if n.Fan != spec.FanNone {
		id += ".0"
	}
	switch {
	case n.Fan != spec.FanNone && w.lanes[n.ID] != nil, w.children["r."+id] == spec.StatusCanceled:
		return spec.StatusFailed
	case w.children["r."+id] == spec.StatusSkipped:
		return spec.StatusSkipped
	}
	return ""
}

// endOf is how a run ends that nobody cancels.
func endOf(graph []spec.Node, w *world) spec.Status {
	end := spec.StatusSucceeded
	for _, n := range graph {
		switch status := w.final[n.ID]; {
		case n.ContinueOnError:
		case status == spec.StatusFailed:
			return status
		case status == spec.StatusDeclined:
			end = status
		case status == spec.StatusSkipped && w.began[n.ID] > 0 && withoutSuccess(n, w) == status && end == spec.StatusSucceeded:
			end = status
		}
	}
	return end
}
