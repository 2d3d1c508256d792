package engine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store/record"
)

// Resolve evaluates a step's `when`, completes its spec and looks for an earlier result of the same.
func (e *Engine) Resolve(ctx context.Context, in contract.ResolveInput) (contract.Resolved, error) {
	if err := e.flush(ctx, in.Ends); err != nil {
		return contract.Resolved{}, err
	}
	return e.resolve(ctx, in, nil)
}

// resolve is Resolve; known are results of which there are no records yet.
func (e *Engine) resolve(ctx context.Context, in contract.ResolveInput, known map[string]spec.StepResult) (contract.Resolved, error) {
	sub, node, vars, err := e.stepVars(ctx, in.StepRef, in.RunContext, known)
	if err != nil {
		return contract.Resolved{}, err
	}
	resolved, err := sub.Program.Resolve(in.Step, vars)
	switch {
	case expr.IsAbsent(err) && node.Section != spec.SectionMain:
		return contract.Resolved{Skip: "a value that it reads is absent: " + err.Error()}, nil
	case err != nil:
		return contract.Resolved{}, fault.New(fault.Invalid, err.Error(), err)
	case !resolved.Run:
		return contract.Resolved{Skip: "its `when` was false"}, nil
	}
	if kinds[node.Kind].cleans {
		if err := e.checkBaseline(ctx, sub, resolved.Spec, vars.Datasets); err != nil {
			return contract.Resolved{}, err
		}
	}
	out := contract.Resolved{Summary: resolved.Summary}
	if in.Reuse.NoCache, err = e.withoutCache(ctx, in.Reuse, in.Step); err != nil {
		return out, err
	}
	parts, why, err := e.keyParts(ctx, sub, in.Run, node, vars, &resolved)
	if err == nil && why.fails && kinds[node.Kind].resumes {
		parts, err = e.outlived(ctx, in, parts)
	}
	if err != nil {
		return out, err
	}
	out.Key = keyOf(parts)
	e.keys.put(out.Key, parts) // for the step's record
	found, err := e.lookup(ctx, sub.Program, node, in, vars, resolved.Cache, out.Key)
	if err != nil {
		return out, err
	}
	switch {
	case found != nil:
		out.Hit = found.run
		out.Output, err = e.handOn(ctx, found.record)
		return out, err
	case isLeftOut(in.Reuse, node) && slices.Contains(in.Reuse.Needed, node.ID):
		return out, e.nothingToReuse(ctx, in, resolved.Cache)
	case isLeftOut(in.Reuse, node):
		out.Skip = "it was not selected, and there is no earlier result to reuse"
		return out, nil
	}
	if out.Step, err = e.stepInput(ctx, sub, in, node, resolved, parts); err != nil {
		return out, err
	}
	if left, run, err := e.unfinished(ctx, node, in, out.Key); err != nil {
		return out, err
	} else if left != nil {
		out.Step.ResumeRun = run
	}
	if kinds[node.Kind].asks {
		out.Ask, err = question(sub, in.StepRef, resolved.Spec)
	}
	return out, err
}

// nothingToReuse is the error of a step that selected steps need, and that was not selected itself.
func (e *Engine) nothingToReuse(ctx context.Context, in contract.ResolveInput, cache spec.Cache) error {
	why, help := "there is no earlier result to reuse", "select it too, or run all steps"
	if in.Reuse.From == "" && (in.Reuse.NoCache || !cache.Enabled) {
		rec, err := e.record(ctx, in.Run)
		if err != nil {
			return err
		}
		why, help = "the cache is not used for it", "`sluice rerun "+cmp.Or(rec.Last, "RUN")+" --only "+strings.Join(in.Reuse.Only, ",")+"` reuses those of that run, or select it too"
	}
	return fault.Errorf(fault.Invalid, "it was not selected, but the selected steps need it, and %s: %s", why, help)
}

func isLeftOut(reuse record.Reuse, node spec.Node) bool {
	return len(reuse.Only) > 0 && node.Section == spec.SectionMain && !slices.Contains(reuse.Only, node.ID)
}

// stepInput is what the activity or child of the step is given.
func (e *Engine) stepInput(
	ctx context.Context, sub *Submitted, in contract.ResolveInput, node spec.Node, resolved dsl.Resolved, parts map[string]string,
) (record.StepInput, error) {
	step := record.StepInput{
		Run: in.Run, Step: in.ID(), Kind: node.Kind, Spec: resolved.Spec, Env: resolved.Env, Secrets: resolved.Secrets,
		Workspace: sub.Workspace, Submission: in.Submission, InPlace: readInPlace(resolved, parts),
		Fresh: in.Reuse.NoCache || !resolved.Cache.Enabled || node.Section != spec.SectionMain, Python: parts[partPython],
	}
	if kinds[node.Kind].isRun {
		step.Needs = needsOf(sub.Program, in.Step, parts)
	}
	if sub.Program.Environment().Limits != (spec.WorkerLimits{}) && node.Kind.DefaultTimeout() > 0 && !node.OnPool {
		step.AttemptTimeout = time.Duration(cmp.Or(node.Timeout, node.Kind.DefaultTimeout()))
	}
	if target := kinds[node.Kind].target; target != nil {
		name, err := target(resolved.Spec)
		if err != nil {
			return step, err
		}
		step.AnyWorker = sub.Program.Environment().Targets[name].URL() != ""
	}
	if len(step.Spec) > record.InlineLimit && !kinds[node.Kind].inline {
		var err error
		if step.SpecRef, _, err = e.Store.PutBlob(ctx, bytes.NewReader(step.Spec)); err != nil {
			return step, err
		}
		step.Spec = nil
	}
	return step, nil
}

// question is what an approval step asks, and whom.
func question(sub *Submitted, at record.StepRef, resolved json.RawMessage) (*contract.ApprovalInput, error) {
	ask, err := spec.Decode[spec.Approval](resolved)
	if err != nil {
		return nil, err
	}
	return &contract.ApprovalInput{Run: at.Run, Step: at.ID(), Approval: ask, Users: users(sub, ask.Who)}, nil
}

// users are those that names of the environment, or `user:NAME`, stand for, each as user:NAME. A group of an identity provider stands
// for itself: nobody can say yet who is in it, and an empty list would be anyone.
func users(sub *Submitted, who []string) []string {
	var all []string
	for _, name := range who {
		person := sub.Program.Environment().People[name]
		switch {
		case person.OIDC != "":
			all = append(all, contract.OIDCPrefix+person.OIDC)
		case len(person.Users) == 0:
			all = append(all, name)
		}
		for _, user := range person.Users {
			all = append(all, "user:"+strings.TrimPrefix(user, "user:"))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Expand evaluates the `when` of a step with instances, and lists the instances.
func (e *Engine) Expand(ctx context.Context, in contract.ResolveInput) (contract.Expanded, error) {
	sub, node, vars, err := e.stepVars(ctx, in.StepRef, in.RunContext, nil)
	if err != nil {
		return contract.Expanded{}, err
	}
	switch holds, _, err := sub.Program.When(in.Step, vars); {
	case err != nil:
		return contract.Expanded{}, fault.New(fault.Invalid, err.Error(), err)
	case !holds:
		return contract.Expanded{Skip: "its `when` was false"}, nil
	case node.Fan == spec.FanRepeat:
		return contract.Expanded{Of: node.Max}, nil
	}
	all, err := sub.Program.Expand(in.Step, vars)
	switch {
	case err != nil:
		return contract.Expanded{}, fault.New(fault.Invalid, err.Error(), err)
	case len(all) == 0:
		return contract.Expanded{Skip: "it has no instances: its list is empty"}, nil
	}
	digest, err := record.WriteBlob(ctx, e.Store, all)
	if err != nil {
		return contract.Expanded{}, err
	}
	e.instances.put(digest, all)
	return contract.Expanded{List: digest, Of: len(all)}, nil
}
