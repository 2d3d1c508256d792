package engine

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/store/record"
)

// worldOf are the parts of a key that stand for things which may change while the step waits to begin.
func worldOf(parts map[string]string) map[string]string {
	world := map[string]string{}
	for name, part := range parts {
		_, isSecret := secretOf(name)
		if isSecret || slices.Contains([]string{partPython, partGPU, partComputeCapability, partDriver, partTensorRT}, name) {
			world[name] = part
		}
	}
	return world
}

// secretOf returns what hashKeyParts calls the secret that a part has a fingerprint of.
func secretOf(part string) (what string, isSecret bool) {
	what, named := strings.CutPrefix(part, "secrets.")
	what, valued := strings.CutSuffix(what, ".value")
	return what, named && valued
}

// Keyed wraps an activity that executes a step: if the world is not the one of the step's key when its program starts, the key does not stand
// for the result.
func (e *Engine) Keyed(
	do func(context.Context, record.StepInput) (record.StepOutput, error),
) func(context.Context, record.StepInput) (record.StepOutput, error) {
	return func(ctx context.Context, in record.StepInput) (record.StepOutput, error) {
		isSame, err := e.IsWorld(ctx, in.Submission, in.World, in.Secrets)
		if err != nil {
			return record.StepOutput{}, err
		}
		out, err := do(ctx, in)
		out.Unkeyed = out.Unkeyed || !isSame
		return out, err
	}
}

// IsWorld reports whether the world is as it was when a key was made.
func (e *Engine) IsWorld(ctx context.Context, submission string, world, secrets map[string]string) (bool, error) {
	if len(world) == 0 {
		return true, nil
	}
	sub, err := e.Submission(ctx, submission)
	if err != nil {
		return false, err
	}
	now := map[string]string{}
	if world[partPython] != "" {
		if err := e.addPython(ctx, sub, now); err != nil {
			return false, err
		}
	}
	if world[partTensorRT]+world[partGPU] != "" {
		if err := e.addPlatform(ctx, now); err != nil {
			return false, err
		}
	}
	for name := range world {
		if what, isSecret := secretOf(name); isSecret {
			if now[name], err = e.secretPart(ctx, sub.Program, cmp.Or(secrets[what], what)); err != nil {
				return false, err
			}
		}
	}
	return maps.Equal(now, world), nil
}
