package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"os"

	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/metrics"
	"github.com/sluiceml/sluice/internal/secret"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training/checkpoint"
)

// secrets resolves the step's secrets on this node. It also returns the variables that hold secrets, which the program must not inherit.
func (n *node) secrets(ctx context.Context, in record.StepInput) (secret.Values, []string, error) {
	env, err := checkpoint.GetEnvironment(ctx, n.store, keyOf(in, 0))
	if err != nil {
		return secret.Values{}, nil, fault.New(fault.Infrastructure, "read where secrets come from: "+err.Error(), err)
	}
	values, err := n.resolver.Resolve(ctx, env, in.Secrets)
	return values, secret.Variables(env), secret.Typed(err)
}

// leaks reports whether a line of metrics contains a secret. A number counts only as a whole, because a short secret may be part of any.
func leaks(mask *secret.Mask, line []byte) bool {
	if mask == nil {
		return false
	}
	var value any
	if json.Unmarshal(metrics.Standard(line), &value) != nil {
		return mask.In(string(line))
	}
	return mask.Holds(value)
}

// scrub removes the lines that contain a secret from the file, which is kept with the logs, and reports whether there were any. The program
// must have ended.
func (m *follower) scrub() (bool, error) {
	if m.mask == nil {
		return false, nil
	}
	raw, err := os.ReadFile(m.path)
	if err != nil {
		return false, err
	}
	var kept bytes.Buffer
	for line := range bytes.Lines(raw) {
		if !leaks(m.mask, line) {
			kept.Write(line)
		}
	}
	if kept.Len() == len(raw) {
		return false, nil
	}
	return true, os.WriteFile(m.path, kept.Bytes(), 0o644)
}
