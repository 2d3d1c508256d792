package gang

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/protocol"
)

// at is a moment some seconds into the generation.
func at(seconds int) time.Time { return time.Unix(int64(1000+seconds), 0) }

func ended(r protocol.RanksEnded) nodeState {
	return nodeState{prepared: true, started: true, ended: true, result: r}
}

func failed(err error) nodeState {
	return nodeState{prepared: true, started: true, ended: true, err: err}
}

func TestClassifyGeneration(t *testing.T) {
	var (
		ok       = ended(protocol.RanksEnded{EndedAt: at(9)})
		stopped  = ended(protocol.RanksEnded{Code: 143, Stopped: true, EndedAt: at(9), Step: 40, CommittedStep: 40})
		agreed   = ended(protocol.RanksEnded{Code: 143, EndedAt: at(8), Step: 40, CommittedStep: 40})
		killed   = ended(protocol.RanksEnded{Code: -1, Signal: 9, EndedAt: at(2), Tail: "last words"})
		cutShort = ended(protocol.RanksEnded{Code: -1, Signal: 9, Stopped: true, EndedAt: at(9)})
		failsA   = ended(protocol.RanksEnded{Code: 1, EndedAt: at(3), Tail: "Connection closed by peer"})
		failsB   = ended(protocol.RanksEnded{Code: 7, EndedAt: at(2), Tail: "Traceback\nthe real reason\n(python3 is p)", Last: "the real reason"})
		terse    = ended(protocol.RanksEnded{Code: 7, EndedAt: at(2), Tail: "the real reason\n", Last: "the real reason"})
		hung     = ended(protocol.RanksEnded{Code: -1, Signal: 9, Hung: true, EndedAt: at(8)})
		second   = ended(protocol.RanksEnded{Code: 3, EndedAt: at(2), Ranks: 4, Local: 2})
		hungry   = ended(protocol.RanksEnded{Code: -1, Signal: 9, EndedAt: at(4), OverMemory: "it used 17GiB, more than `memory: 16GiB`"})
		silent   = nodeState{prepared: true, started: true, gone: true}
		running  = nodeState{prepared: true, started: true}
		waiting  = nodeState{}
		notice   = &protocol.Notice{Generation: 1, Node: 1}
		loss     = &training.Loss{Nodes: []int{1}, Reason: "node 1: it was interrupted without notice"}
		refused  = failed(fault.New(fault.Invalid, "speaks another protocol", nil))
		user     = failed(fault.New(fault.User, "python9 is not installed", nil))
		broken   = failed(fault.New(fault.Infrastructure, "no space left", nil))
		noAnswer = failed(temporal.NewTimeoutError(enums.TIMEOUT_TYPE_HEARTBEAT, nil))
		left     = ended(protocol.RanksEnded{Stopped: true, EndedAt: at(9), Step: 400, Of: 10000, CommittedStep: 400})
		atLast   = ended(protocol.RanksEnded{Stopped: true, EndedAt: at(9), Step: 10000, Of: 10000})
		unsaid   = ended(protocol.RanksEnded{Stopped: true, EndedAt: at(9), Step: 400})
		without  = ended(protocol.RanksEnded{EndedAt: at(8), Step: 400, Of: 10000, Unfinished: "output model: there is no file"})
		faulty   = ended(protocol.RanksEnded{Code: 1, EndedAt: at(2), Tail: "CUDA error", Fault: "GPU 3 (GPU-x): XID 79"})
		gpuBroke = &protocol.Notice{Generation: 1, Node: 1, Cause: protocol.CauseFault, Reason: "GPU 3 (GPU-x): XID 79"}
		idle     = &protocol.Notice{Generation: 1, Node: 0, Cause: protocol.CauseIdle, Reason: "the GPUs were busy 3% of the last 10m, less than 30%"}
		severed  = ended(protocol.RanksEnded{Code: 1, EndedAt: at(9), Tail: "Connection reset by peer"})
		aborted  = ended(protocol.RanksEnded{Code: -1, Signal: 6, EndedAt: at(10), Tail: "NCCL watchdog"})
		shutDown = ended(protocol.RanksEnded{Code: 143, Stopped: true, NodeStopped: true, EndedAt: at(9)})
		damaged  = nodeState{unusable: "the checkpoint cannot be used: step 40"}
	)
	noAnswer.gone = true
	cutOff := nodeState{ended: true, gone: true, err: fault.New(fault.Preempted, "it cannot reach the store: no route", nil)}
	unheard := nodeState{ended: true, gone: true, err: temporal.NewTimeoutError(enums.TIMEOUT_TYPE_SCHEDULE_TO_START, nil)}
	uncommitted := stopped
	uncommitted.result.CommitError = "no space left"

	cleans := &train{in: contract.TrainInput{StepInput: record.StepInput{Kind: spec.KindClean}}}
	compiles := &train{in: contract.TrainInput{StepInput: record.StepInput{Kind: spec.KindCompile}}}
	for _, tt := range []struct {
		name    string
		life    generation
		want    spec.GenerationEnd
		errType string
		says    string
	}{
		{"all finished", generation{nodes: []nodeState{ok, ok}}, spec.EndFinished, "", ""},
		{"finished in spite of a notice", generation{nodes: []nodeState{ok, ok}, notice: notice}, spec.EndFinished, "", ""},
		{"finished before the cancel came", generation{nodes: []nodeState{ok, ok}, canceled: true}, spec.EndFinished, "", ""},
		{"told to stop at the last step", generation{nodes: []nodeState{atLast, left}, notice: notice}, spec.EndFinished, "", ""},
		{"exit 0 on notice", generation{nodes: []nodeState{left, left}, notice: notice}, spec.EndNotice, "", "node 1 received a preemption notice"},
		{"exit 0 on notice, of an unknown number of steps", generation{nodes: []nodeState{unsaid, unsaid}, notice: notice}, spec.EndNotice, "", "node 1 received a preemption notice"},
		{"exit 0 on notice, passed on by a peer", generation{nodes: []nodeState{ok, left}, notice: notice}, spec.EndNotice, "", "node 1 received a preemption notice"},
		{"exit 0 without outputs, before the notice was passed on", generation{nodes: []nodeState{without, left}, notice: notice}, spec.EndNotice, "", "node 1 received a preemption notice"},
		{"exit 0 without outputs, before the move was passed on", generation{nodes: []nodeState{without, left}, watcher: &spotWatcher{found: &contract.Acquired{}}}, spec.EndMoved, "", "spot"},
		{"exit 0 without outputs, and the peers stopped because of it", generation{nodes: []nodeState{without, left}}, spec.EndUserError, fault.User, "output model"},
		{"exit 0 without outputs, after the other ranks' failure", generation{nodes: []nodeState{without, failsB}}, spec.EndUserError, fault.User, "the real reason"},
		{"exit 0 after a cancel", generation{nodes: []nodeState{left, left}, canceled: true}, spec.EndCanceled, "", "canceled"},
		{"exit 0 after the timeout", generation{nodes: []nodeState{left, left}, late: true}, spec.EndTimeout, fault.Timeout, "timeout"},
		{"exit 0 at the step's own total", generation{train: &train{plan: contract.TrainPlan{TotalSteps: 400}}, nodes: []nodeState{unsaid, ok}, notice: notice}, spec.EndFinished, "", ""},
		{"exit 0, and told to stop by somebody else", generation{nodes: []nodeState{left, left}}, spec.EndCrashed, fault.Infrastructure, "exited with 0 at step 400 of 10000"},
		{"stopped on notice", generation{nodes: []nodeState{stopped, stopped}, notice: notice}, spec.EndNotice, "", "node 1 received a preemption notice"},
		{"a GPU broke, and the ranks stopped with a checkpoint", generation{nodes: []nodeState{stopped, stopped}, fault: gpuBroke}, spec.EndNodeLost, "", "node 1: GPU 3"},
		{"a GPU broke, and the program failed of it", generation{nodes: []nodeState{failsA, faulty}}, spec.EndNodeLost, "", "node 1: GPU 3"},
		{"a GPU broke, and took the machine down", generation{nodes: []nodeState{stopped, silent}, fault: gpuBroke, loss: loss}, spec.EndNodeLost, "", "node 1: GPU 3"},
		{"finished in spite of a broken GPU", generation{nodes: []nodeState{ok, ok}, fault: gpuBroke}, spec.EndFinished, "", ""},
		{"canceled, and a GPU broke", generation{nodes: []nodeState{stopped, faulty}, canceled: true}, spec.EndCanceled, "", "canceled"},
		{"released for idle GPUs", generation{nodes: []nodeState{stopped, stopped}, idle: idle}, spec.EndIdle, fault.User, "node 0: the GPUs were busy 3%"},
		{"released for idle GPUs, and a rank fails on its way out", generation{nodes: []nodeState{failsA, stopped}, idle: idle}, spec.EndIdle, fault.User, "the GPUs were busy 3%"},
		{"exit 0 when released for idle GPUs", generation{nodes: []nodeState{left, left}, idle: idle}, spec.EndIdle, fault.User, "the GPUs were busy 3%"},
		{"finished or stopped on notice", generation{nodes: []nodeState{stopped, ok}, notice: notice}, spec.EndNotice, "", "node 1 received a preemption notice"},
		{"agreed to stop before it was told", generation{nodes: []nodeState{agreed, stopped}, notice: notice}, spec.EndNotice, "", "node 1 received a preemption notice"},
		{"stopped though nobody asked", generation{nodes: []nodeState{agreed, agreed}}, spec.EndUserError, fault.User, "exit code 143"},
		{"fails because a peer was stopped on notice", generation{nodes: []nodeState{severed, stopped}, notice: notice}, spec.EndNodeLost, "", "rank 0 did not stop in time"},
		{"aborts because a peer was stopped on notice", generation{nodes: []nodeState{stopped, aborted}, notice: notice}, spec.EndNodeLost, "", "rank 1 did not stop in time"},
		{"fails because a peer was stopped for a move", generation{nodes: []nodeState{severed, stopped}, watcher: &spotWatcher{found: &contract.Acquired{}}}, spec.EndMoved, "", "spot"},
		{"had failed before anybody was stopped", generation{nodes: []nodeState{failsA, stopped}, notice: notice}, spec.EndUserError, fault.User, "exit code 1"},
		{"a node is stopped by hand", generation{nodes: []nodeState{shutDown, shutDown}}, spec.EndNodeLost, "", "node 0 was stopped from outside Sluice"},
		{"a node is stopped by hand, and its peers fail", generation{nodes: []nodeState{failsA, shutDown}}, spec.EndNodeLost, "", "node 1 was stopped from outside Sluice"},
		{"killed at the end of the notice", generation{nodes: []nodeState{cutShort, stopped}, notice: notice}, spec.EndNodeLost, "", "rank 0 did not stop in time"},
		{"nothing committed on notice", generation{nodes: []nodeState{uncommitted, stopped}, notice: notice}, spec.EndNodeLost, "", "no space left"},
		{"gone before the stop was done", generation{nodes: []nodeState{stopped, silent}, notice: notice, loss: loss}, spec.EndNodeLost, "", "without notice"},
		{"notice before the ranks ran", generation{nodes: []nodeState{waiting, waiting}, notice: notice}, spec.EndNotice, "", "node 1 received a preemption notice"},
		{"the peers of a lost node fail", generation{nodes: []nodeState{failsA, silent}, loss: loss}, spec.EndNodeLost, "", "without notice"},
		{"a node that does not answer", generation{nodes: []nodeState{stopped, noAnswer}}, spec.EndNodeLost, "", "node 1 has stopped responding"},
		{"a node that cannot reach the store", generation{nodes: []nodeState{waiting, cutOff}}, spec.EndNodeLost, "", "node 1 cannot be used: it cannot reach the store: no route"},
		{"a node that cannot reach Temporal", generation{nodes: []nodeState{waiting, unheard}}, spec.EndNodeLost, "", "the agent of node 1 did not ask Temporal for work within 2m0s"},
		{"the loss of a node whose rank had failed before", generation{nodes: []nodeState{failsA, failsB}, loss: loss}, spec.EndUserError, fault.User, "exit code 7"},
		{"the peers of a killed rank fail", generation{nodes: []nodeState{failsA, killed}}, spec.EndCrashed, fault.Infrastructure, "rank 1 was killed by signal 9"},
		{"the first to fail is to blame", generation{nodes: []nodeState{failsA, failsB}}, spec.EndUserError, fault.User, "rank 1 ended with exit code 7: the real reason\nTraceback\nthe real reason\n(python3 is p)"},
		{"a rank that printed only the reason", generation{nodes: []nodeState{terse}}, spec.EndUserError, fault.User, "rank 0 ended with exit code 7: the real reason"},
		{"a rank of an earlier agent", generation{nodes: []nodeState{failsA}}, spec.EndUserError, fault.User, "rank 0 ended with exit code 1\nConnection closed by peer"},
		{"a rank that was stopped is not to blame", generation{nodes: []nodeState{failsA, cutShort}}, spec.EndUserError, fault.User, "rank 0"},
		{"a rank of several on its node", generation{nodes: []nodeState{ok, second}}, spec.EndUserError, fault.User, "rank 6 ended with exit code 3"},
		{"a rank that wants too much memory", generation{nodes: []nodeState{failsA, hungry}}, spec.EndCrashed, fault.User, "rank 1 was killed: it used 17GiB, more than `memory: 16GiB`"},
		{"a hang that the node explains", generation{nodes: []nodeState{ended(protocol.RanksEnded{Code: -1, Signal: 6, Hung: true, HungWhy: "no new step for 10m0s"})}}, spec.EndHung, fault.Infrastructure, "rank 0 hung: no new step for 10m0s"},
		{"a cleaning that wants too much memory", generation{train: cleans, nodes: []nodeState{hungry}}, spec.EndCrashed, fault.User, "the cleaning was killed: it used 17GiB"},
		{"a cleaning that is not over on notice", generation{train: cleans, nodes: []nodeState{cutShort}, notice: notice}, spec.EndNodeLost, "", "notice, and the cleaning had not finished"},
		{"a compilation that is killed", generation{train: compiles, nodes: []nodeState{killed}}, spec.EndCrashed, fault.Infrastructure, "the compilation was killed by signal 9"},
		{"a hang", generation{nodes: []nodeState{hung, cutShort}}, spec.EndHung, fault.Infrastructure, "rank 0 hung"},
		{"canceled", generation{nodes: []nodeState{stopped, stopped}, canceled: true}, spec.EndCanceled, "", "canceled"},
		{"too late", generation{nodes: []nodeState{stopped, stopped}, late: true}, spec.EndTimeout, fault.Timeout, "timeout"},
		{"an agent of another release", generation{nodes: []nodeState{refused, waiting}}, spec.EndUserError, fault.Invalid, "protocol"},
		{"no such program", generation{nodes: []nodeState{user, stopped}}, spec.EndUserError, fault.User, "python9"},
		{"a node without room", generation{nodes: []nodeState{stopped, broken}}, spec.EndCrashed, fault.Infrastructure, "node 1: no space left"},
		{"a damaged checkpoint", generation{nodes: []nodeState{damaged, waiting}}, spec.EndDamaged, "", "cannot be used"},
		{"one that finished and one that still runs", generation{nodes: []nodeState{ok, running}}, spec.EndCrashed, fault.Infrastructure, "unknown reason"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.life.train == nil {
				tt.life.train = &train{}
			}
			end := tt.life.classify()
			if end.how != tt.want || end.errType != tt.errType || !strings.Contains(end.message(), tt.says) {
				t.Errorf("ended as %s (%q): %q, want %s (%q): %q", end.how, end.errType, end.message(), tt.want, tt.errType, tt.says)
			}
			if end.unusable != (tt.life.nodes[0].unusable != "") {
				t.Errorf("unusable %v", end.unusable)
			}
		})
	}
}

func TestWhichRankFailedFirst(t *testing.T) {
	ms := func(n int) time.Time { return at(10).Add(time.Duration(n) * time.Millisecond) }
	end := func(ended, said int) protocol.RanksEnded {
		r := protocol.RanksEnded{EndedAt: ms(ended)}
		if said >= 0 {
			r.SaidAt = ms(said)
		}
		return r
	}
	for _, tt := range []struct {
		name string
		a, b protocol.RanksEnded
		want bool
	}{
		{"long before", end(0, 900), end(1000, 100), true},
		{"long after", end(1000, 100), end(0, 900), false},
		{"together, and fell silent before", end(20, 1), end(10, 5), true},
		{"together, and spoke after", end(10, 5), end(20, 1), false},
		{"together, and one never spoke", end(10, -1), end(20, 1), true},
	} {
		if got := failedBefore(tt.a, tt.b); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// A node that will go is told of by its agent, by its pool, or by both: the reason is the pool's, which alone knows it, whoever was first.
func TestTrainHearsTheNodeAndThePool(t *testing.T) {
	agent := protocol.Notice{Generation: 1, Node: 0}
	pool, other := agent, agent
	pool.Reason, other.Node, other.Reason = "node 0: its pod was disrupted: EvictionByEvictionAPI", 1, "another node's"
	for name, tt := range map[string]struct {
		said []protocol.Notice
		want string
	}{
		"the agent alone": {[]protocol.Notice{agent, agent}, "node 0 received a preemption notice"},
		"the pool alone":  {[]protocol.Notice{pool}, pool.Reason},
		"the agent first": {[]protocol.Notice{agent, other, pool}, pool.Reason},
		"the pool first":  {[]protocol.Notice{pool, other, agent}, pool.Reason},
	} {
		t.Run(name, func(t *testing.T) {
			s, stopped := &stage{}, make(chan struct{})
			env := s.environment(t)
			s.ranks = func(generation int) (protocol.RanksEnded, error) {
				if generation == 1 {
					for _, n := range tt.said {
						n.Until = env.Now().Add(time.Minute)
						env.SignalWorkflow(protocol.NoticeSignal, n)
					}
					<-stopped
					return protocol.RanksEnded{Code: exitStopped, Stopped: true}, nil
				}
				return protocol.RanksEnded{}, nil
			}
			env.RegisterActivityWithOptions(func(context.Context, protocol.StopInput) error {
				close(stopped)
				return nil
			}, activity.RegisterOptions{Name: protocol.StopActivity})
			if err := s.train(t, env, spec.Retry{}); err != nil {
				t.Fatal(err)
			}
			g := s.collected.Generations
			if len(g) != 2 || g[0].End != spec.EndNotice || g[0].Reason != tt.want {
				t.Errorf("generations %+v, want a notice: %s", g, tt.want)
			}
		})
	}
}
