package fault_test

import (
	"errors"
	"fmt"
	"testing"

	"go.temporal.io/sdk/temporal"

	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/fault/boundary"
	"github.com/sluiceml/sluice/internal/secret"
)

// What Temporal's errors say of themselves is nothing for people, however often they were wrapped and quoted.
func TestMessage(t *testing.T) {
	user := fault.New(fault.User, "traffic: `label` is 152", nil)
	away := fault.New(fault.Infrastructure, "the store is away", errors.New("dial tcp: refused"))
	converter := temporal.GetDefaultFailureConverter()
	travelled := func(err error) error {
		return converter.FailureToError(converter.ErrorToFailure(boundary.Failure(err)))
	}
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"typed":             {user, "traffic: `label` is 152"},
		"quoted":            {fault.New(fault.User, "step ship: "+user.Error(), user), "step ship: traffic: `label` is 152"},
		"wrapped and sent":  {travelled(fmt.Errorf("step ship: %w", user)), "step ship: traffic: `label` is 152"},
		"twice":             {travelled(fmt.Errorf("run r: %w", fault.New(fault.User, "step ship: "+user.Error(), user))), "run r: step ship: traffic: `label` is 152"},
		"with its cause":    {fault.New(fault.User, "step ship: "+away.Error(), away), "step ship: the store is away"},
		"joined":            {fault.New(fault.User, errors.Join(user, away).Error(), errors.Join(user, away)), "traffic: `label` is 152\nthe store is away"},
		"joined with plain": {fault.New(fault.User, errors.Join(user, errors.New("disk")).Error(), user), "traffic: `label` is 152\ndisk"},
		"untyped":           {errors.New("disk"), "disk"},
		"canceled":          {temporal.NewCanceledError(), "canceled"},
		"none":              {nil, ""},
	} {
		if got := fault.Message(tt.err); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestWithCost(t *testing.T) {
	for name, err := range map[string]error{
		"failed": fault.New(fault.User, "exit code 1", nil), "canceled": temporal.NewCanceledError("Activity canceled"), "untyped": errors.New("disk"),
	} {
		spent := fault.WithCost(err, fault.Costs{USD: 2.5})
		if fault.CostOf(spent).USD != 2.5 || fault.TypeOf(spent) != fault.TypeOf(err) || fault.Message(spent) != fault.Message(err) {
			t.Errorf("%s: %v cost %v", name, spent, fault.CostOf(spent).USD)
		}
	}
}

// What travels with an error is outputs only when somebody has put them there.
func TestOutputs(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"outputs":            {fault.WithOutputs(fault.Gate, "rolled back", []byte(`{"stage":1}`)), `{"stage":1}`},
		"none":               {fault.New(fault.Gate, "rolled back", nil), ""},
		"no application's":   {errors.New("disk"), ""},
		"a cancel":           {temporal.NewCanceledError(), ""},
		"text with a cancel": {temporal.NewCanceledError("Activity canceled"), ""},
		"a number":           {temporal.NewCanceledError("7"), ""},
	} {
		if got := string(fault.Outputs(tt.err)); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// Causes are recorded too.
func TestMasked(t *testing.T) {
	mask := secret.NewMask("hunter2hunter2")
	cause := errors.New("dial hunter2hunter2@db: refused")
	for name, tt := range map[string]struct {
		err          error
		typ, message string
		kept         bool
	}{
		"none":              {nil, "", "", true},
		"no secret":         {fault.New(fault.User, "exit code 1", errors.New("disk")), fault.User, "exit code 1", true},
		"in the message":    {fault.New(fault.User, cause.Error(), nil), fault.User, "dial ***@db: refused", false},
		"in the cause":      {fault.New(fault.User, "exit code 1", fmt.Errorf("row 7: %w", cause)), fault.User, "exit code 1", false},
		"in a wrapped one":  {fmt.Errorf("step: %w", errors.Join(errors.New("disk"), cause)), fault.Infrastructure, "step: disk\ndial ***@db: refused", false},
		"in an application": {temporal.NewApplicationErrorWithCause("exit code 1", fault.User, cause), fault.User, "exit code 1", false},
	} {
		err := fault.Masked(mask, tt.err)
		if fault.TypeOf(err) != tt.typ || fault.Message(err) != tt.message || (err == tt.err) != tt.kept {
			t.Errorf("%s: %s error %q, as it was: %v", name, fault.TypeOf(err), fault.Message(err), err == tt.err)
		}
		if !tt.kept && errors.Is(err, cause) {
			t.Errorf("%s: %v has its cause still", name, err)
		}
	}
}
