package contract

import (
	"errors"
	"testing"

	"go.temporal.io/sdk/temporal"
)

func TestWithCost(t *testing.T) {
	for name, err := range map[string]error{
		"failed": Error(ErrUser, "exit code 1", nil), "canceled": temporal.NewCanceledError("Activity canceled"), "untyped": errors.New("disk"),
	} {
		spent := WithCost(err, Costs{USD: 2.5})
		if CostOf(spent).USD != 2.5 || ErrorType(spent) != ErrorType(err) || Message(spent) != Message(err) {
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
		"outputs":            {ErrorWithOutputs(ErrGate, "rolled back", []byte(`{"stage":1}`)), `{"stage":1}`},
		"none":               {Error(ErrGate, "rolled back", nil), ""},
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
