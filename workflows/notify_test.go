package workflows

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/testing/flowtest"
)

// post plays the activities of Notify: a delivery ends as its entry says, one error after the other, and then succeeds.
type post struct {
	audience []string
	ends     map[string][]error
	always   map[string]error

	mu    sync.Mutex
	sent  []contract.SendInput
	limit time.Duration // for all attempts at a delivery
}

func (p *post) environment(t *testing.T) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	env := flowtest.New()
	env.RegisterWorkflowWithOptions(Notify, workflow.RegisterOptions{Name: contract.NotifyWorkflow})
	register := func(name string, f any) { env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name}) }
	register(contract.NotifyAudienceActivity, func(context.Context, contract.NotifyInput) ([]string, error) { return p.audience, nil })
	register(contract.NotifyActivity, func(ctx context.Context, in contract.SendInput) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.limit = activity.GetInfo(ctx).ScheduleToCloseTimeout
		p.sent = append(p.sent, in)
		if left := p.ends[in.To]; len(left) > 0 {
			p.ends[in.To] = left[1:]
			return left[0]
		}
		return p.always[in.To]
	})
	return env
}

func (p *post) times(to string) (n int) {
	for _, s := range p.sent {
		if s.To == to {
			n++
		}
	}
	return n
}

func TestNotify(t *testing.T) {
	down := fault.New(fault.Infrastructure, "503", nil)
	p := &post{
		audience: []string{"board", "gone", "ops", "slow"},
		ends:     map[string][]error{"ops": {down, down}},
		always:   map[string]error{"gone": fault.New(fault.Invalid, "404", nil), "slow": down},
	}
	env := p.environment(t)
	began := env.Now()
	in := contract.NotifyInput{Run: "r", Pipeline: "p", Submission: "s", Event: spec.EventFail, Text: "why", At: began}
	env.ExecuteWorkflow(contract.NotifyWorkflow, in)
	err := env.GetWorkflowError()
	if err == nil || fault.TypeOf(err) != fault.Infrastructure || !strings.Contains(err.Error(), "not notified: gone: 404; slow: 503") {
		t.Errorf("it ended with %v", err)
	}
	if board, gone, ops := p.times("board"), p.times("gone"), p.times("ops"); board != 1 || gone != 1 || ops != 3 {
		t.Errorf("tried %d, %d and %d times, want 1, 1 and 3", board, gone, ops)
	}
	// After 2, 4, ..., 256 s, and then every 5 minutes. The SDK's tests end an activity at its tenth attempt, whatever its options say.
	if slow, took := p.times("slow"), env.Now().Sub(began); slow != 10 || took != 510*time.Second+5*time.Minute {
		t.Errorf("what stays down was tried %d times in %v", slow, took)
	}
	if p.limit != time.Hour {
		t.Errorf("a delivery may take %v in all, want an hour", p.limit)
	}
	ids := map[string]bool{}
	for _, s := range p.sent {
		ids[s.ID] = true
		if diff := cmp.Diff(in, s.NotifyInput); diff != "" {
			t.Fatalf("what is sent (-want +got):\n%s", diff)
		}
	}
	if len(ids) != 4 {
		t.Errorf("messages have the IDs %v: want one each, whatever the attempt", ids)
	}
}

// TestNotifyOfARun: a run starts a workflow for an event that somebody wants to hear of, and does not wait for its end.
func TestNotifyOfARun(t *testing.T) {
	tests := []struct {
		name   string
		wanted []string
		sent   int
	}{
		{"wanted", []string{spec.EventFail, spec.EventStart}, 1},
		{"not wanted", []string{spec.EventStart}, 0},
		{"nothing wanted", nil, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := &post{audience: []string{"ops"}}
			env := p.environment(t)
			var ended time.Time
			env.RegisterWorkflowWithOptions(func(ctx workflow.Context, canceled bool) error {
				ctx, cancel := workflow.WithCancel(ctx)
				if canceled {
					cancel()
				}
				r := &run{in: contract.RunInput{Run: "r", Name: "p", Submission: "s", Graph: []spec.Node{}}, RunContinuation: contract.RunContinuation{Begin: contract.BeginOutput{Notify: tt.wanted}}}
				r.notify(ctx, spec.EventFail, strings.Repeat("é", maxNotice))
				ended = workflow.Now(ctx)
				return nil
			}, workflow.RegisterOptions{Name: "test"})
			env.SetOnChildWorkflowStartedListener(func(info *workflow.Info, _ workflow.Context, _ converter.EncodedValues) {
				if id := info.WorkflowExecution.ID; id != "notify/r/fail-1" {
					t.Errorf("the workflow is called %s", id)
				}
			})
			env.ExecuteWorkflow("test", true)
			if err := env.GetWorkflowError(); err != nil {
				t.Fatal(err)
			}
			if len(p.sent) != tt.sent {
				t.Fatalf("%d messages, want %d", len(p.sent), tt.sent)
			}
			for _, s := range p.sent {
				if s.Run != "r" || s.Pipeline != "p" || s.Submission != "s" || s.Event != spec.EventFail || s.At.After(ended) ||
					len(s.Text) > maxNotice || strings.ToValidUTF8(s.Text, "") != s.Text {
					t.Errorf("got %s %s %s %s at %v: %d bytes", s.Run, s.Pipeline, s.Submission, s.Event, s.At, len(s.Text))
				}
			}
		})
	}
}

// TestARunThatFailsWhileItWaitsNotifies: a child that can never have its turn, since its parent holds the group, has failed as any other.
func TestARunThatFailsWhileItWaitsNotifies(t *testing.T) {
	w := newWorld()
	w.begun.Concurrency, w.descends = spec.Concurrency{Group: "g"}, []spec.Node{node("x")}
	a := node("a")
	a.Kind = spec.KindPipeline
	env := w.environment(t)
	env.RegisterActivityWithOptions(func(context.Context, string) (bool, error) { return true, nil }, activity.RegisterOptions{Name: contract.AliveActivity})
	var events []string
	env.RegisterWorkflowWithOptions(func(_ workflow.Context, in contract.NotifyInput) error {
		events = append(events, in.Run+" "+in.Event)
		return nil
	}, workflow.RegisterOptions{Name: contract.NotifyWorkflow})
	env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: contract.RunWorkflowID("r")})
	env.ExecuteWorkflow(contract.PipelineWorkflow, contract.RunInput{Run: "r", Name: "p", Graph: []spec.Node{a}})
	if diff := cmp.Diff([]string{"r start", "r.a fail", "r fail"}, events); diff != "" {
		t.Errorf("notified (-want +got):\n%s", diff)
	}
}
