package workflows

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/workflows/durable"
)

// endsAs is how a step or an instance ends, by the table.
type endsAs struct {
	status spec.Status
	typ    string
}

func (e endsAs) line() spec.End {
	end, _ := spec.EndOf(e.status, e.typ)
	return end
}

// cause is a way for a step, or an instance, of a kind to end.
type cause struct {
	name string
	kind spec.Kind
	want endsAs
	// brings has it happen to the step or instance of that ID.
	brings func(w *world, id string)
	// timeout of the step.
	timeout time.Duration
}

// causes are all of them.
var causes = allCauses()

func allCauses() []cause {
	passed, skipped, declined := endsAs{spec.StatusSucceeded, ""}, endsAs{spec.StatusSkipped, ""}, endsAs{spec.StatusDeclined, fault.Gate}
	failed := func(typ string) endsAs { return endsAs{spec.StatusFailed, typ} }
	all := []cause{
		{name: "passes", kind: spec.KindRun, want: passed},
		{name: "is taken over", kind: spec.KindRun, want: passed, brings: func(w *world, id string) { w.hits[id] = "old" }},
		{name: "its when is false", kind: spec.KindRun, want: skipped, brings: func(w *world, id string) { w.when[id] = false }},
		{name: "is held and approved", kind: spec.KindRun, want: passed, brings: func(w *world, id string) { w.holds[id] = answered("approve") }},
		{name: "is held and rejected", kind: spec.KindRun, want: failed(fault.Gate), brings: func(w *world, id string) { w.holds[id] = answered("reject") }},
	}
	attempts := func(name string, want endsAs, errs ...error) {
		all = append(all, cause{name: name, kind: spec.KindRun, want: want, brings: func(w *world, id string) { w.ends[id] = errs }})
	}
	for _, typ := range []string{fault.Invalid, fault.User, fault.Infrastructure, fault.Preempted, fault.Timeout, fault.Gate, fault.Budget} {
		attempts("fails as "+typ, failed(typ), fault.New(typ, "so", nil))
	}
	attempts("fails for a reason that nobody knows", failed(fault.Infrastructure), temporal.NewApplicationError("nil map", "runtimeError"))
	attempts("its activity times out", failed(fault.Timeout), temporal.NewTimeoutError(enums.TIMEOUT_TYPE_START_TO_CLOSE, nil))
	attempts("its worker dies again and again", failed(fault.Infrastructure),
		slices.Repeat([]error{temporal.NewHeartbeatTimeoutError()}, durable.LostWorkers+1)...)
	attempts("its worker dies once", passed, temporal.NewHeartbeatTimeoutError())
	for _, kind := range []spec.Kind{spec.KindPipeline, spec.KindTrain, spec.KindRollout, spec.KindApproval} {
		child := func(name string, want endsAs, o outcome) {
			all = append(all, cause{name: name, kind: kind, want: want, brings: func(w *world, id string) { w.outcomes[id] = o }})
		}
		for _, typ := range []string{fault.User, fault.Gate, fault.Budget, fault.Preempted} {
			child("fails as "+typ, failed(typ), outcome{err: fault.New(typ, "so", nil)})
		}
		child("is canceled by itself", failed(fault.Canceled), outcome{err: temporal.NewCanceledError()})
		child("is terminated", failed(fault.Infrastructure), outcome{err: &temporal.TerminatedError{}})
		child("times out", failed(fault.Timeout), outcome{err: temporal.NewTimeoutError(enums.TIMEOUT_TYPE_START_TO_CLOSE, nil)})
		if kind != spec.KindApproval {
			child("passes", passed, outcome{status: spec.StatusSucceeded})
		}
		if kind == spec.KindPipeline || kind == spec.KindRollout { // the others have a timeout of their own
			child("takes three days", passed, outcome{lasts: 72 * time.Hour, status: spec.StatusSucceeded})
			late := outcome{lasts: time.Hour, status: spec.StatusSucceeded}
			all = append(all, cause{
				name: "is late", kind: kind, want: failed(fault.Timeout), brings: func(w *world, id string) { w.outcomes[id] = late }, timeout: time.Minute,
			})
		}
		all = append(all,
			cause{name: "its gate declines", kind: kind, want: declined, brings: func(w *world, id string) { w.gates[id] = spec.StatusDeclined }},
			cause{name: "its gate fails", kind: kind, want: failed(fault.Gate), brings: func(w *world, id string) { w.gates[id] = spec.StatusFailed }})
	}
	run := func(name string, want endsAs, status spec.Status) {
		all = append(all, cause{name: name, kind: spec.KindPipeline, want: want, brings: func(w *world, id string) { w.outcomes[id] = outcome{status: status} }})
	}
	run("is declined", declined, spec.StatusDeclined)
	run("is turned away", endsAs{spec.StatusSkipped, fault.TurnedAway}, spec.StatusSkipped)
	decided := func(name string, want endsAs, by string) {
		all = append(all, cause{name: name, kind: spec.KindApproval, want: want, brings: func(w *world, id string) { w.asks[id] = answered(by) }})
	}
	decided("is approved", passed, "approve")
	decided("is rejected", failed(fault.Gate), "reject")
	return all
}

// answered is a question that its default answers after an hour.
func answered(answer string) contract.ApprovalInput {
	hour := spec.Duration(time.Hour)
	return contract.ApprovalInput{Approval: spec.Approval{Timeout: &hour, Default: answer}}
}

func newWorld() *world {
	return &world{
		ends: map[string][]error{}, when: map[string]bool{}, hits: map[string]string{}, gates: map[string]spec.Status{}, of: map[string]int{},
		until: map[string]int{}, holds: map[string]contract.ApprovalInput{}, lanes: map[string]error{}, outcomes: map[string]outcome{},
		asks:  map[string]contract.ApprovalInput{},
		begun: contract.BeginOutput{Notify: []string{spec.EventStart, spec.EventFail, spec.EventSuccess, spec.EventRollback}},
	}
}

// drawn is a step of a generated graph.
type drawn struct {
	spec.Node
	// causes of its instances, or of the step; lane is how its only lane ends, when that does not end by itself.
	causes []cause
	lane   *outcomeOfLane
}

type outcomeOfLane struct {
	err  error
	want endsAs
}

var lanesThatEnd = []outcomeOfLane{
	{fault.New(fault.Invalid, "no space left on device", nil), endsAs{spec.StatusFailed, fault.Invalid}},
	{temporal.NewCanceledError(), endsAs{spec.StatusFailed, fault.Canceled}},
	{&temporal.TerminatedError{}, endsAs{spec.StatusFailed, fault.Infrastructure}},
}

// bring has everything happen in w that is to happen to the step.
func (d *drawn) bring(w *world) {
	if d.Fan == spec.FanNone {
		d.causes[0].happenTo(w, &d.Node, d.ID)
		return
	}
	w.of[d.ID] = len(d.causes)
	if d.Fan == spec.FanRepeat {
		w.until[d.ID] = len(d.causes) - 1
	}
	if d.lane != nil {
		w.lanes[d.ID] = d.lane.err
	}
	for i, c := range d.causes {
		c.happenTo(w, &d.Node, fmt.Sprint(d.ID, ".", i))
	}
}

func (c cause) happenTo(w *world, n *spec.Node, id string) {
	n.Kind, n.Timeout = c.kind, spec.Duration(c.timeout)
	if c.kind == spec.KindApproval {
		w.asks[id] = answered("approve")
	}
	if c.brings != nil {
		c.brings(w, id)
	}
}

// failures are the types of the failures of the step or its instances: of several instances the first to fail names it.
func (d *drawn) failures() (types []string) {
	for _, c := range d.causes {
		if c.want.status == spec.StatusFailed {
			types = append(types, c.want.typ)
		}
	}
	if d.lane != nil {
		types = []string{d.lane.want.typ}
	}
	return types
}

// own is how the step ends when it runs, by what the table says of its instances.
func (d *drawn) own() endsAs {
	if d.Fan == spec.FanNone {
		return d.causes[0].want
	}
	counts, worst := map[spec.Count]int{}, endsAs{}
	for _, c := range d.causes {
		end := c.want
		if d.lane != nil {
			end = d.lane.want
		}
		counts[end.line().Instance]++
		if end.line().Rank > worst.line().Rank {
			worst = end
		}
		if d.Fan == spec.FanRepeat && end.status != spec.StatusSucceeded {
			break
		}
	}
	switch need := float64(d.Require) * float64(len(d.causes)); {
	case float64(len(d.causes)-counts[spec.CountFailed]) < need:
		return worst
	case counts[spec.CountLeftOut] > 0:
		return endsAs{spec.StatusSkipped, ""}
	}
	return endsAs{spec.StatusSucceeded, ""}
}

// predicted is what is to come of a run, by the table of ends alone.
type predicted struct {
	Steps  map[string]spec.Status
	Run    spec.Status
	Events []string
}

// predict says what comes of a graph that nobody cancels. types are the types that the run may fail with: that of any failure.
func predict(graph []*drawn) (p predicted, types map[string]bool) {
	p = predicted{Steps: map[string]spec.Status{}, Run: spec.StatusSucceeded, Events: []string{spec.EventStart}}
	types = map[string]bool{}
	byID, rank := map[string]*drawn{}, 0
	var main spec.End // of the main steps together
	for _, d := range graph {
		byID[d.ID] = d
		if d.Section != spec.SectionMain && main.Status == "" {
			main = spec.EndOfRun(p.Run, "")
		}
		end := endsAs{status: d.blocked(p.Steps, byID)}
		switch {
		case d.Section == spec.SectionOnFailure && !main.HandlesFailure:
			end.status = spec.StatusSkipped
		case end.status == spec.StatusPending:
			end = d.own()
			if d.Kind == spec.KindRollout && slices.Contains(d.failures(), fault.Gate) {
				p.Events = append(p.Events, spec.EventRollback)
			}
		}
		p.Steps[d.ID] = end.status
		line := end.line()
		if line.Rank == 0 {
			continue
		}
		if d.ContinueOnError {
			continue
		}
		if line.Rank > rank {
			rank, p.Run = line.Rank, line.Run
		}
		if line.Run == spec.StatusFailed {
			for _, typ := range d.failures() {
				types[typ] = true
			}
		}
	}
	if event := spec.EndOfRun(p.Run, "").Event; event != "" {
		p.Events = append(p.Events, event)
	}
	slices.Sort(p.Events)
	return p, types
}

// blocked is how a step ends for what it needs: pending when it runs.
func (d *drawn) blocked(ended map[string]spec.Status, byID map[string]*drawn) spec.Status {
	verdict := spec.StatusPending
	for _, id := range d.After {
		need, line := d.Needs[id], endsAs{status: ended[id]}.line()
		forgiven := byID[id].ContinueOnError && line.Rank > 0
		if skipped := (endsAs{status: spec.StatusSkipped}).line(); forgiven && need != spec.NeedFailed {
			line = skipped
		}
		switch becomes := map[spec.Need]spec.Status{
			spec.NeedPassed: line.Passed, spec.NeedNotFailed: line.NotFailed, spec.NeedFailed: line.Failed, spec.NeedEnded: spec.StatusPending,
		}[need]; {
		case becomes == spec.StatusUpstream:
			return becomes
		case becomes == spec.StatusSkipped:
			verdict = becomes
		}
	}
	return verdict
}

// play runs a graph, in histories that grow so fast, and cancels it after so many local activities; 0: never.
func play(t tester, graph []*drawn, grows, cancelAfter int) (w *world, events []string) {
	w = newWorld()
	var nodes []spec.Node
	for _, d := range graph {
		d.bring(w)
		nodes = append(nodes, d.Node)
	}
	follow(t, w, contract.PipelineWorkflow, contract.RunInput{Run: "r", Name: "p", Graph: nodes}, func(env *environment, in contract.RunInput) {
		env.grows = grows
		if in.Continuation == nil {
			env.cancelAfter = cancelAfter
		}
		env.RegisterWorkflowWithOptions(func(_ workflow.Context, in contract.NotifyInput) error {
			if in.Run == "r" { // and not a child run
				events = append(events, in.Event)
			}
			return nil
		}, workflow.RegisterOptions{Name: contract.NotifyWorkflow})
	})
	slices.Sort(events)
	return w, events
}

// check compares a run with what the table says of it. split: it may have had several histories.
func check(t tester, graph []*drawn, w *world, events []string, split bool) {
	t.Helper()
	want, types := predict(graph)
	got := predicted{Steps: w.final, Run: w.finished.Status, Events: events}
	if split { // an instance that comes after others that failed need not have begun
		rolledBack := func(event string) bool { return event == spec.EventRollback }
		want.Events, got.Events = slices.DeleteFunc(want.Events, rolledBack), slices.DeleteFunc(got.Events, rolledBack)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the run (-by the table +as it was):\n%s", diff)
	}
	typ := w.finished.ErrorType
	if want.Run == spec.StatusFailed && !types[typ] {
		t.Errorf("the run failed as %q, its steps as %v", typ, types)
	}
	end := record.RunOutput{Status: w.finished.Status, ErrorType: typ}
	if line := spec.EndOfRun(end.Status, end.ErrorType); line.Accepted != (want.Run == spec.StatusSucceeded) || line.Status != want.Run {
		t.Errorf("the line of the run is %+v", line)
	}
}

// TestEveryEnd has every end happen at every place, and compares what follows with the table.
func TestEveryEnd(t *testing.T) {
	passes := causes[0]
	reader := func(need spec.Need, section spec.Section) *drawn {
		return &drawn{Node: in(section, node(string(need)+"-"+string(section), "x", string(need))), causes: []cause{passes}}
	}
	try := func(t *testing.T, x *drawn) {
		t.Helper()
		graph := []*drawn{}
		if x.Section == spec.SectionOnFailure {
			graph = append(graph, &drawn{Node: node("boom"), causes: []cause{causeNamed(t, spec.KindRun, "fails as user")}})
		}
		graph = append(graph, x)
		for _, need := range []spec.Need{spec.NeedPassed, spec.NeedNotFailed, spec.NeedEnded, spec.NeedFailed} {
			graph = append(graph, reader(need, x.Section))
		}
		for _, section := range []spec.Section{spec.SectionOnFailure, spec.SectionFinally} {
			if section.IsAfter(x.Section) {
				graph = append(graph, &drawn{Node: in(section, node("z"+string(section))), causes: []cause{passes}})
			}
		}
		w, events := play(t, graph, 0, 0)
		check(t, graph, w, events, false)
	}
	step := func(c cause, section spec.Section) *drawn {
		return &drawn{Node: in(section, node("x")), causes: []cause{c}}
	}
	fan := func(c cause, require spec.Share) *drawn {
		d := &drawn{Node: wide("x", spec.FanForeach), causes: []cause{passes, c, passes}}
		if c.kind != spec.KindRun {
			d.causes = []cause{c}
		}
		d.Require = require
		return d
	}
	for _, c := range causes {
		t.Run(string(c.kind)+" "+c.name, func(t *testing.T) {
			for _, section := range spec.Sections {
				try(t, step(c, section))
			}
			forgiven := step(c, spec.SectionMain)
			forgiven.ContinueOnError = true
			try(t, forgiven)
			try(t, fan(c, 1))
			try(t, fan(c, 0.6))
			if c.want != (endsAs{spec.StatusSkipped, ""}) { // only instances are left out
				repeat := &drawn{Node: wide("x", spec.FanRepeat), causes: []cause{c}}
				try(t, repeat)
			}
		})
	}
	for _, lane := range lanesThatEnd {
		t.Run("a lane "+lane.want.typ, func(t *testing.T) {
			for _, require := range []spec.Share{1, 0.5, 0} {
				d := fan(passes, require)
				d.lane = &lane
				try(t, d)
			}
		})
	}
}

func causeNamed(t *testing.T, kind spec.Kind, name string) cause {
	t.Helper()
	i := slices.IndexFunc(causes, func(c cause) bool { return c.kind == kind && c.name == name })
	if i < 0 {
		t.Fatalf("nothing is named %q", name)
	}
	return causes[i]
}

// drawGraph draws a pipeline's graph and how its steps are to end.
func drawGraph(t *rapid.T) []*drawn {
	needs := []spec.Need{spec.NeedPassed, spec.NeedNotFailed, spec.NeedEnded, spec.NeedFailed}
	var graph []*drawn
	for _, section := range spec.Sections {
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
			d := &drawn{Node: n, causes: []cause{drawCause(t, causes[0].kind)}}
			switch rapid.IntRange(0, 9).Draw(t, "form") {
			case 0, 1: // instances of one kind, of which any may end in any way
				kind := rapid.SampledFrom(spec.Kinds).Draw(t, "kind")
				d.Fan, d.Require, d.causes = spec.FanForeach, rapid.SampledFrom([]spec.Share{1, 0.5, 0}).Draw(t, "require"), nil
				for range rapid.IntRange(1, 5).Draw(t, "of") {
					d.causes = append(d.causes, drawCause(t, kind))
				}
				if rapid.IntRange(0, 4).Draw(t, "lane") == 0 {
					d.lane = &lanesThatEnd[rapid.IntRange(0, len(lanesThatEnd)-1).Draw(t, "lane end")]
				}
			case 2, 3, 4:
				d.causes = []cause{causes[0]}
			case 5, 6, 7:
				d.causes = []cause{causes[rapid.IntRange(0, len(causes)-1).Draw(t, "cause")]}
			}
			graph = append(graph, d)
		}
	}
	return graph
}

// drawCause draws one of those of a kind; of kinds that are done as a `run` is, one of that.
func drawCause(t *rapid.T, kind spec.Kind) cause {
	var ofKind []cause
	for _, c := range causes {
		if c.kind == kind && c.timeout == 0 {
			ofKind = append(ofKind, c)
		}
	}
	if len(ofKind) == 0 {
		return drawCause(t, spec.KindRun)
	}
	return ofKind[rapid.IntRange(0, len(ofKind)-1).Draw(t, "cause")]
}

// TestAnyGraph: every run is as the table says, whatever its graph, its steps' ends and the length of its history.
func TestAnyGraph(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		graph := drawGraph(r)
		grows := rapid.SampledFrom([]int{0, 200, 700}).Draw(r, "history grows by") // 0: one history
		w, events := play(r, graph, grows, 0)
		check(r, graph, w, events, grows > 0)
	})
}

// TestAnyGraphCanceled: what holds of a run at whichever moment it is canceled.
func TestAnyGraphCanceled(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		graph := drawGraph(r)
		cancelAfter := rapid.SampledFrom([]int{1, 3, 8}).Draw(r, "cancel after")
		w, events := play(r, graph, rapid.SampledFrom([]int{0, 200, 700}).Draw(r, "history grows by"), cancelAfter)
		if w.finished.Status != spec.StatusCanceled { // it came too late
			check(r, graph, w, events, true)
			return
		}
		byID := map[string]*drawn{}
		for _, d := range graph {
			byID[d.ID] = d
			end, ran := w.final[d.ID], w.began[d.ID] > 0
			met := d.blocked(w.final, byID) == spec.StatusPending
			switch wanted := d.Section == spec.SectionFinally && met; {
			case !end.IsEnd():
				r.Errorf("%s did not end: %q", d.ID, end)
			case ran && !met || wanted && !ran:
				r.Errorf("%s ended as %s; it ran: %v; its needs are met: %v", d.ID, end, ran, met)
			}
			for _, id := range d.After {
				if ran && w.ended[id] > w.began[d.ID] {
					r.Errorf("%s began before %s had ended", d.ID, id)
				}
			}
		}
		if slices.Contains(events, spec.EventSuccess) || slices.Contains(events, spec.EventFail) {
			r.Errorf("a canceled run was notified of as %v", events)
		}
	})
}
