package integration

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/connect/state"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
)

// TestStatelessWorkersRollOut: where a target's gateways are replicas of `sluice serve`, workers that keep nothing in their processes roll
// out, the first release as all later ones. Where traffic is sticky, a user who has had a release in a rollout does not get the one before again
// until it is taken back.
func TestStatelessWorkersRollOut(t *testing.T) {
	t.Parallel()
	s := newRelease(t)
	s.edit("environment.yaml", fmt.Sprintf("{port: %d}", s.port), fmt.Sprintf("{port: %d, url: 'http://127.0.0.1:%[1]d/'}", s.port))
	s.edit("pipeline.yaml", "{weight: 100%}", "{weight: 50%, min_samples: 3}, {weight: 100%, min_samples: 3}")
	s.env = append(s.env, state.StoreVariable+"=file://"+filepath.Join(s.state, "store"))
	s.serve()
	for _, name := range []string{"one", "two"} {
		s.start("worker", "--stateless", "--state", filepath.Join(s.dir, name)).awaits("Ctrl-C stops")
	}
	s.start("serve", "-e", "environment.yaml", "--state", filepath.Join(s.dir, "gateway")).awaits("words at ")
	for _, version := range []string{"1", "2"} {
		s.runWhile(func() { _, _ = s.infer() }).expect(0)
		if got, err := s.infer(); err != nil || got != version {
			t.Errorf("version %s answers (%v), want %s", got, err, version)
		}
	}

	s.edit("pipeline.yaml", "target: words", "target: words\n      sticky: {header: X-User}")
	s.edit("pipeline.yaml", "{weight: 50%, min_samples: 3}", "{weight: 20%, min_samples: 10}, {weight: 50%, min_samples: 10}")
	key, err := gateway.EnsureLabelKey(filepath.Join(s.dir, "gateway"))
	if err != nil {
		t.Fatal(err)
	}
	equal := users{}
	s.runWhile(func() { s.askAll(equal, key) }).expect(0)
	s.askAll(equal, key)
	equal.met(t, "2 3")

	s.setModel(onnxtest.TextWrong)
	bad := users{}
	s.runWhile(func() { s.askAll(bad, key) }).expect(4)
	s.askAll(bad, key)
	bad.met(t, "3", "3 4 3")
}

// runWhile runs the project's pipeline, and does something again and again until that has ended.
func (s *sandbox) runWhile(do func()) *command {
	s.t.Helper()
	run := s.run()
	run.await("the end", func() bool {
		do()
		select {
		case <-run.done:
			return true
		default:
			return false
		}
	})
	return run
}

// users have by which release each was answered, one after the other.
type users map[string][]string

// askAll has each user ask once, with the label of the answer.
func (s *sandbox) askAll(u users, labelKey string) {
	for i := range 60 {
		user := fmt.Sprint("user", i)
		got, _, err := s.answerTo(`{"label": true}`, map[string]string{"X-User": user, "Authorization": gateway.LabelHeader(labelKey)})
		if err != nil {
			got = err.Error()
		}
		if met := u[user]; len(met) == 0 || met[len(met)-1] != got {
			u[user] = append(met, got)
		}
	}
}

// met checks that some of the users have met each of these sequences, and nobody another.
func (u users) met(t *testing.T, sequences ...string) {
	t.Helper()
	count := map[string]int{}
	for user, met := range u {
		sequence := strings.Join(met, " ")
		count[sequence]++
		if !slices.Contains(sequences, sequence) {
			t.Errorf("%s has met %q", user, sequence)
		}
	}
	for _, sequence := range sequences {
		if count[sequence] == 0 {
			t.Errorf("no user has met %q: %v", sequence, count)
		}
	}
}
