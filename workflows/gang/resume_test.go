package gang

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/training/protocol"
)

func ptr[T any](v T) *T { return &v }

// Ranks that fail twice before they make a step from a checkpoint go on from the one before. If they fail there, too, that is their own fault.
func TestTrainResumesFromTheCheckpointBefore(t *testing.T) {
	fails := protocol.RanksEnded{Code: 1, Last: "EOFError", Step: 30, CommittedStep: 30}
	for name, tt := range map[string]struct {
		ranks []protocol.RanksEnded // from the second generation on
		from  []int64
		ends  []spec.GenerationEnd
		err   string
	}{
		"it cannot be read": {
			[]protocol.RanksEnded{fails, fails, {Step: 90, Began: ptr(int64(21))}},
			[]int64{30, 30, 20},
			[]spec.GenerationEnd{spec.EndUserError, spec.EndDamaged, spec.EndFinished},
			"",
		},
		"its program is killed": {
			[]protocol.RanksEnded{{Code: -1, Signal: 11, CommittedStep: 30}, fails, {Began: ptr(int64(21))}},
			[]int64{30, 30, 20},
			[]spec.GenerationEnd{spec.EndCrashed, spec.EndDamaged, spec.EndFinished},
			"",
		},
		"it can be read the second time": {
			[]protocol.RanksEnded{fails, {Began: ptr(int64(31))}},
			[]int64{30, 30},
			[]spec.GenerationEnd{spec.EndUserError, spec.EndFinished},
			"",
		},
		"the program fails with any": {
			[]protocol.RanksEnded{fails, fails, {Code: 1, Last: "no such host", CommittedStep: 20}},
			[]int64{30, 30, 20},
			[]spec.GenerationEnd{spec.EndUserError, spec.EndDamaged, spec.EndUserError},
			"no such host",
		},
		"it fails after some steps": {
			[]protocol.RanksEnded{{Code: 1, Last: "NaN", Step: 35, Began: ptr(int64(31)), CommittedStep: 30}},
			[]int64{30},
			[]spec.GenerationEnd{spec.EndUserError},
			"NaN",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &stage{
				from: func(g int) int64 { return tt.from[g-1] },
				ranks: func(g int) (protocol.RanksEnded, error) {
					return tt.ranks[g-1], nil
				},
			}
			err := s.train(t, s.environment(t), spec.Retry{Attempts: 1})
			got := s.collected.Generations
			if tt.err != "" {
				got = s.accounted
			}
			if (err != nil) != (tt.err != "") || err != nil && (!strings.Contains(err.Error(), tt.err) || fault.TypeOf(err) != fault.User) {
				t.Fatalf("ended with %v, want %q", err, tt.err)
			}
			var ends []spec.GenerationEnd
			for _, g := range got {
				ends = append(ends, g.End)
				want := "before its first step from the checkpoint of step 30, rank 0"
				if g.End == spec.EndDamaged && (!strings.Contains(g.Reason, want) || !strings.HasSuffix(g.Reason, "the next generation resumes from the checkpoint before")) {
					t.Errorf("generation %d ended as %q", g.Index, g.Reason)
				}
			}
			if diff := cmp.Diff(tt.ends, ends); diff != "" {
				t.Errorf("ends (-want +got):\n%s", diff)
			}
			var unusable []artifact.Ref
			if len(tt.from) == 3 {
				unusable = []artifact.Ref{{Digest: "30"}}
			}
			if diff := cmp.Diff(unusable, s.unusable); diff != "" {
				t.Errorf("unusable (-want +got):\n%s", diff)
			}
		})
	}
}

// A script that begins before the checkpoint that it was given is said not to resume, and the steps until there are accounted as lost.
func TestTrainSaysThatTheScriptDoesNotResume(t *testing.T) {
	s := &stage{
		from: func(g int) int64 { return int64(min(g-1, 1)) * 69 },
		ranks: func(g int) (protocol.RanksEnded, error) {
			end := protocol.RanksEnded{Code: -1, Signal: 9, Step: 69, CommittedStep: 69, Began: ptr(int64(1))}
			if g > 1 {
				end.Step = 60
			}
			if g == 3 {
				end = protocol.RanksEnded{Step: 150, CommittedStep: 150, Began: ptr(int64(1))}
			}
			return end, nil
		},
	}
	if err := s.train(t, s.environment(t), spec.Retry{Attempts: 3}); err != nil {
		t.Fatal(err)
	}
	type account struct {
		from, to, lost int64
		notResumed     bool
	}
	var got []account
	for _, g := range s.collected.Generations {
		got = append(got, account{g.FromStep, g.ToStep, g.StepsLost, g.NotResumed})
		if want := "the script began at step 1 and did not resume from the checkpoint of step 69"; g.NotResumed != strings.HasSuffix(g.Reason, want) {
			t.Errorf("generation %d ended as %q", g.Index, g.Reason)
		}
	}
	want := []account{{0, 69, 69, false}, {0, 60, 60, true}, {0, 150, 0, true}}
	if fmt.Sprint(want) != fmt.Sprint(got) {
		t.Errorf("generations %v, want %v", got, want)
	}
}

// A training that is interrupted time and again because its script does not resume fails for that reason.
func TestTrainEndsWhenTheScriptDoesNotResume(t *testing.T) {
	t.Parallel() // the clock does not skip ahead while Watch runs
	s := &stage{
		from: func(g int) int64 { return int64(min(g-1, 1)) * 69 }, falls: true, reached: 60, began: ptr(int64(1)),
		ranks: func(int) (protocol.RanksEnded, error) {
			return protocol.RanksEnded{}, fault.New(fault.Infrastructure, "the node no longer exists", nil)
		},
	}
	err := s.train(t, s.environment(t), spec.Retry{})
	if fault.TypeOf(err) != fault.User || !strings.Contains(fault.Message(err), "does not resume from the checkpoint of step 69") || s.acquired != 1+maxFruitless {
		t.Errorf("ended with %v after %d gangs, want the script named", err, s.acquired)
	}
}

// A training that is interrupted before anything is committed says so the first time.
func TestTrainSaysThatNothingIsSaved(t *testing.T) {
	s := &stage{reached: 40, falls: true}
	s.ranks = func(g int) (protocol.RanksEnded, error) {
		if g == 1 {
			return protocol.RanksEnded{}, fault.New(fault.Infrastructure, "the node no longer exists", nil)
		}
		s.falls = false
		return protocol.RanksEnded{Step: 100}, nil
	}
	if err := s.train(t, s.environment(t), spec.Retry{}); err != nil {
		t.Fatal(err)
	}
	if g := s.collected.Generations; len(g) < 2 || !strings.Contains(g[0].Reason, "; no checkpoint had been committed, so the training begins again") {
		t.Errorf("generations %+v, want the first to say that nothing was committed", g)
	}
}
