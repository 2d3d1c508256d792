package failure

import (
	"errors"
	"fmt"
	"testing"

	"go.temporal.io/sdk/temporal"
)

// What Temporal's errors say of themselves is nothing for people, however often they were wrapped and quoted.
func TestMessage(t *testing.T) {
	user := New(User, "traffic: `label` is 152", nil)
	away := New(Infrastructure, "the store is away", errors.New("dial tcp: refused"))
	converter := temporal.GetDefaultFailureConverter()
	travelled := func(err error) error { return converter.FailureToError(converter.ErrorToFailure(err)) }
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"typed":             {user, "traffic: `label` is 152"},
		"quoted":            {New(User, "step ship: "+user.Error(), user), "step ship: traffic: `label` is 152"},
		"wrapped and sent":  {travelled(fmt.Errorf("step ship: %w", user)), "step ship: traffic: `label` is 152"},
		"twice":             {travelled(fmt.Errorf("run r: %w", New(User, "step ship: "+user.Error(), user))), "run r: step ship: traffic: `label` is 152"},
		"with its cause":    {New(User, "step ship: "+away.Error(), away), "step ship: the store is away"},
		"joined":            {New(User, errors.Join(user, away).Error(), errors.Join(user, away)), "traffic: `label` is 152\nthe store is away"},
		"joined with plain": {New(User, errors.Join(user, errors.New("disk")).Error(), user), "traffic: `label` is 152\ndisk"},
		"untyped":           {errors.New("disk"), "disk"},
		"canceled":          {temporal.NewCanceledError(), "canceled"},
		"none":              {nil, ""},
	} {
		if got := Message(tt.err); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestWithCost(t *testing.T) {
	for name, err := range map[string]error{
		"failed": New(User, "exit code 1", nil), "canceled": temporal.NewCanceledError("Activity canceled"), "untyped": errors.New("disk"),
	} {
		spent := WithCost(err, Costs{USD: 2.5})
		if CostOf(spent).USD != 2.5 || TypeOf(spent) != TypeOf(err) || Message(spent) != Message(err) {
			t.Errorf("%s: %v cost %v", name, spent, CostOf(spent).USD)
		}
	}
}

// What travels with an error is outputs only when somebody has put them there.
func TestOutputs(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"outputs":            {WithOutputs(Gate, "rolled back", []byte(`{"stage":1}`)), `{"stage":1}`},
		"none":               {New(Gate, "rolled back", nil), ""},
		"no application's":   {errors.New("disk"), ""},
		"a cancel":           {temporal.NewCanceledError(), ""},
		"text with a cancel": {temporal.NewCanceledError("Activity canceled"), ""},
		"a number":           {temporal.NewCanceledError("7"), ""},
	} {
		if got := string(Outputs(tt.err)); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
