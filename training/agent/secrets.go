package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/metrics"
	"github.com/sluiceml/sluice/internal/secret"
	"github.com/sluiceml/sluice/store/record"
)

// secrets finds the values of the step's secrets, on this node, and names the variables that hold any.
func (n *node) secrets(ctx context.Context, in record.StepInput) (secret.Values, []string, error) {
	env, err := n.environment(ctx, in.Submission)
	if err != nil {
		return secret.Values{}, nil, err
	}
	values, err := n.resolver.Resolve(ctx, env, in.Secrets)
	return values, secret.Variables(env), secret.Typed(err)
}

// environment reads the environment that the step was submitted with.
func (n *node) environment(ctx context.Context, submission string) (*spec.Environment, error) {
	blob, err := n.store.Blob(ctx, submission)
	if err != nil {
		return nil, fault.New(fault.Infrastructure, "read the submission: "+err.Error(), err)
	}
	var sub record.Submission
	err = errors.Join(json.NewDecoder(io.LimitReader(blob, maxSpec)).Decode(&sub), blob.Close())
	if err != nil {
		return nil, fault.New(fault.Infrastructure, "read the submission: "+err.Error(), err)
	}
	if len(sub.Environment) == 0 {
		return spec.DefaultEnvironment(), nil
	}
	env, diags := dsl.LoadEnvironment(document.File{Name: sub.EnvFile, Source: sub.Environment})
	if env == nil {
		return nil, fault.New(fault.Invalid, "this version of sluice-agent refuses the environment:\n"+diags.Text(false), nil)
	}
	return env, nil
}

// leaks reports whether a line of metrics tells a secret. Its numbers count whole: a short secret may lie within any.
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

// scrub takes the lines that tell a secret out of the file, which is kept with the logs, and reports whether there were any. The
// program must have ended.
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
