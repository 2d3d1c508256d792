package ec2

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/store"
)

// sweeper is one of a worker that sees as open what is listed.
func (w *world) sweeper(grace time.Duration, open ...string) *Sweeper {
	return &Sweeper{
		Depot: w.opts.Depot, Agent: w.opts.Agent, Grace: grace,
		Open: func(_ context.Context, workflow string) (bool, error) { return slices.Contains(open, workflow), nil },
	}
}

// orphan has a worker die when its fleet has been launched, with a template, two instances and a configuration.
func (w *world) orphan(t *testing.T) []string {
	t.Helper()
	ctx, die := context.WithCancel(t.Context())
	w.front.set(func(f *front) { f.launched = func(*front) { die() } })
	if _, err := w.Acquire(ctx, request(1, 2, 2)); err == nil {
		t.Fatal("a worker that died has got its gang")
	}
	w.front.set(func(f *front) { f.launched = nil })
	left := w.left(t, request(1, 2, 2).Key)
	if len(left) != 4 {
		t.Fatalf("the gang has left %q, want two instances, a template and a configuration", left)
	}
	return left
}

// inEC2 keeps of what a gang has left what is in EC2.
func inEC2(left []string) []string {
	return slices.DeleteFunc(slices.Clone(left), func(id string) bool { return strings.HasPrefix(id, store.HandoverPrefix) })
}

// What nobody will release is ended, by any number of workers at once.
func TestSweep(t *testing.T) {
	w := newWorld(t, nil)
	w.orphan(t)
	results := make(chan error)
	for range 2 {
		go func() {
			_, err := w.sweeper(time.Nanosecond).Sweep(t.Context())
			results <- err
		}()
	}
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if left := inEC2(w.left(t, request(1, 2, 2).Key)); len(left) > 0 {
		t.Errorf("Sweep has left %q", left)
	}
	if ended, err := w.sweeper(time.Nanosecond).Sweep(t.Context()); err != nil || len(ended) > 0 {
		t.Errorf("another sweep has ended %q, %v", ended, err)
	}
}

// What somebody may still release is left alone.
func TestSweepLeaves(t *testing.T) {
	w := newWorld(t, nil)
	left := w.orphan(t)
	away := errors.New("Temporal is away")
	for _, test := range []struct {
		name   string
		change func(*Sweeper)
		want   error
	}{
		{"the workflow is open", func(s *Sweeper) { s.Open = w.sweeper(0, "train/r1/fit").Open }, nil},
		{"it may still boot", func(s *Sweeper) { s.Grace = time.Hour }, nil},
		{"for as long as gangs may take", func(s *Sweeper) { s.Grace = 0 }, nil},
		{"of another namespace", func(s *Sweeper) { s.Agent.Namespace = "other" }, nil},
		{"of another Temporal", func(s *Sweeper) { s.Agent.Address = "other:7233" }, nil},
		{"of another store", func(s *Sweeper) { s.Agent.Store = "s3://other" }, nil},
		{"nobody knows", func(s *Sweeper) { s.Open = func(context.Context, string) (bool, error) { return false, away } }, away},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := w.sweeper(time.Nanosecond)
			test.change(s)
			ended, err := s.Sweep(t.Context())
			if !errors.Is(err, test.want) || len(ended) > 0 {
				t.Errorf("Sweep has ended %q, %v, want %v", ended, err, test.want)
			}
			now := w.left(t, request(1, 2, 2).Key)
			if diff := cmp.Diff(inEC2(left), inEC2(now)); diff != "" {
				t.Errorf("what is left (-before +after):\n%s", diff)
			}
		})
	}
	release(t, w.Pool, request(1, 2, 2).Key)
}

// A gang of a store from before there was a sweeper has no tags for it, and one in whose region nothing was started costs no call.
func TestSweepNothing(t *testing.T) {
	w := newWorld(t, nil)
	if ended, err := w.sweeper(time.Nanosecond).Sweep(t.Context()); err != nil || len(ended) > 0 {
		t.Errorf("Sweep has ended %q, %v", ended, err)
	}
	if n := w.front.count("DescribeLaunchTemplates"); n > 0 {
		t.Errorf("EC2 was asked %d times", n)
	}
	r := request(1, 1, 1)
	r.Workflow = strings.Repeat("w", maxTag+1) // which no tag can hold
	if _, err := w.Acquire(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	defer release(t, w.Pool, r.Key)
	ended, err := w.sweeper(time.Nanosecond).Sweep(t.Context())
	if err != nil || len(ended) > 0 {
		t.Errorf("Sweep has ended %q, %v, of which it does not know the workflow", ended, err)
	}
}
