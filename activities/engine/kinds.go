package engine

import (
	"encoding/json"
	"maps"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/internal/fault"
)

// kind is what the engine needs to know about a kind of step.
type kind struct {
	// files: all its steps see the workspace; of other kinds those that run programs do.
	files bool
	// pools are those that a step may be done on, each with what of its runtime the step does not choose for itself.
	pools func(env *spec.Environment, raw json.RawMessage) (runtimes, error)
	// runsHere reports whether a step may run programs on this machine.
	runsHere func(pools runtimes, programs bool) bool
	// engines are the flavors of TensorRT of which a step may build engines, where it runs here.
	engines func(raw json.RawMessage) ([]string, error)
	// hashKeys are the secrets that a step's hashes are made with, by what a person would call them. open is true when there may be more.
	hashKeys func(program *dsl.Program, node spec.Node, resolved dsl.Resolved) (secrets map[string]string, open bool, err error)

	// cleans: its dataset is made of rows that are counted, and is compared with an earlier one when it is evaluated.
	cleans bool
	// asks: it waits for a person.
	asks bool
	// asides are outputs that tell how its result was made, or compare it with another. Steps that need it do not depend on them.
	asides []string
	// resumes: what it leaves when it does not finish is of use to the next run.
	resumes bool
	// undone: what it did is undone when its gate refuses it.
	undone bool
	// poolFiles: the files of the workspace that it depends on are also those that its pools name.
	poolFiles bool
	// inline: its workflow reads the resolved spec, which is never large, from its input.
	inline bool
	// target is the name of the target that its steps release to.
	target func(raw json.RawMessage) (string, error)
	// isRun: it is a run of its own.
	isRun bool
}

// kinds are all that this version has.
var kinds = map[spec.Kind]kind{
	spec.KindClean: {runsHere: ifPrograms, hashKeys: hashKeysOfClean, cleans: true, asides: []string{
		"rows", "rules", "reasons", "splits", "masked", "profile", "profiles", "schema", "drift", "duplicates", "account", "statistics",
	}},
	spec.KindTrain: {files: true, pools: poolsOfStep, runsHere: ifPoolIsHere, resumes: true, poolFiles: true, asides: []string{
		"steps_done", "steps_lost", "steps_repeated", "steps_at_least", "generations", "curve", "late", "ledger", "node_seconds", "cost_usd",
		"cost_unknown", "outcomes", "costs", "nodes",
	}},
	spec.KindEvaluate: {files: true, runsHere: always},
	spec.KindCompile:  {runsHere: always, engines: enginesOf},
	spec.KindRollout:  {inline: true, undone: true, target: targetOfRollout},
	spec.KindRun:      {files: true, runsHere: always},
	spec.KindApproval: {asks: true},
	spec.KindPipeline: {
		files: true, pools: allPools, runsHere: always, engines: maybe, hashKeys: hashKeysOfChild, isRun: true,
	},
}

func targetOfRollout(raw json.RawMessage) (string, error) {
	rollout, err := spec.Decode[spec.Rollout](raw)
	return rollout.Target, err
}

// kindOf returns what the engine needs to know about a step; a step on nodes of pools is handled like a training.
func kindOf(node spec.Node) kind {
	of := kinds[node.Kind]
	if node.OnPool {
		train := kinds[spec.KindTrain]
		of.files, of.pools, of.runsHere, of.poolFiles, of.resumes = train.files, train.pools, train.runsHere, train.poolFiles, train.resumes
	}
	return of
}

// Cleans reports whether steps of a kind are cleanings, whose memory the environment bounds.
func Cleans(kind spec.Kind) bool { return kinds[kind].cleans }

func always(runtimes, bool) bool { return true }

func ifPrograms(_ runtimes, programs bool) bool { return programs }

func ifPoolIsHere(pools runtimes, _ bool) bool {
	for _, pool := range pools {
		if pool.Local != nil {
			return true
		}
	}
	return false
}

// allPools: a child pipeline may have steps on any.
func allPools(env *spec.Environment, _ json.RawMessage) (runtimes, error) {
	return maps.Clone(env.Pools), nil
}

func poolsOfStep(env *spec.Environment, raw json.RawMessage) (runtimes, error) {
	var step struct {
		spec.Command
		spec.Placement
	}
	if err := json.Unmarshal(raw, &step); err != nil {
		return nil, fault.New(fault.Invalid, "the resolved spec of a step on a pool cannot be read", err)
	}
	pools := runtimes{}
	for _, name := range step.Pool {
		pool := env.Pools[name]
		if step.Runtime.Image != "" {
			pool.Runtime.Image = ""
		}
		if step.Runtime.Python != "" {
			pool.Runtime.Python = ""
		}
		pools[name] = pool
	}
	return pools, nil
}

// maybe: a child pipeline may have a step that does.
func maybe(json.RawMessage) ([]string, error) {
	return []string{spec.FlavorTrtexec, spec.FlavorRTX}, nil
}

func enginesOf(raw json.RawMessage) ([]string, error) {
	var compile spec.CompileModel
	if err := json.Unmarshal(raw, &compile); err != nil {
		return nil, fault.New(fault.Invalid, "the resolved spec of a compile step cannot be read", err)
	}
	return compile.Engines(), nil
}

// hashKeysOfClean are named by the cleaning's own variables.
func hashKeysOfClean(_ *dsl.Program, _ spec.Node, resolved dsl.Resolved) (map[string]string, bool, error) {
	clean, err := spec.Decode[spec.Clean](resolved.Spec)
	if err != nil {
		return nil, false, err
	}
	secrets := map[string]string{}
	variables, err := transform.HashKeys(&clean)
	for _, variable := range variables {
		secrets[variable] = resolved.Secrets[variable]
	}
	return secrets, false, err
}

// hashKeysOfChild are named by their own names.
func hashKeysOfChild(program *dsl.Program, node spec.Node, resolved dsl.Resolved) (map[string]string, bool, error) {
	child, err := spec.Decode[spec.ChildPipeline](resolved.Spec)
	if err != nil {
		return nil, false, err
	}
	secrets := map[string]string{}
	names, open := program.ChildHashKeys(node.ID, child.Params)
	for _, name := range names {
		secrets[name] = name
	}
	return secrets, open, nil
}
