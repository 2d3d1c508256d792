package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities"
	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/activities/engine"
	gangactivities "github.com/sluiceml/sluice/activities/gang"
	"github.com/sluiceml/sluice/activities/rollout"
	"github.com/sluiceml/sluice/activities/watch"
	"github.com/sluiceml/sluice/compile/trtexec"
	"github.com/sluiceml/sluice/connect"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/objectstore"
	"github.com/sluiceml/sluice/internal/secret"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/gpu/helper"
	"github.com/sluiceml/sluice/training/local"
	"github.com/sluiceml/sluice/training/protocol"
	"github.com/sluiceml/sluice/workflows"
	"github.com/sluiceml/sluice/workflows/gang"
)

// register makes the workers know every workflow and activity there is, on whichever queue they come.
func (w *Worker) register() error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the executable of this program: %w", err)
	}
	s := w.session
	kept := activities.Patient(s.Store)
	engine := engine.NewEngine(kept)
	engine.Python, engine.Platform, engine.Home = w.pythons.Digest, new(trtexec.Finder).Platform, s.Home()
	engine.Here = !connect.ClusterNamed()
	engine.Logs = filepath.Join(s.Dir, "logs")
	engine.Holder, engine.Open = w.holder, w.alive
	secrets := secret.NewResolver()
	programs := &activities.Programs{Store: kept, State: s.Dir, Pythons: w.pythons, Engine: engine, Secrets: secrets}
	cleaner := &activities.Cleaner{Store: kept, State: s.Dir, Engine: engine, Secrets: secrets, Pythons: w.pythons, Executable: exe}
	compiler := &activities.Compiler{Store: kept, State: s.Dir, Engine: engine, Pythons: w.pythons, Executable: exe}
	limits := &activities.Limits{Store: kept, Engine: engine}
	step := func(do activities.ActivityOf) any {
		return engine.WithVerdict(w.executions.Attachable(limits.Admitted(engine.Keyed(do))))
	}
	trainings := &gangactivities.Trainings{
		Store: kept, Engine: engine, LogDir: filepath.Join(s.Dir, "logs"), Pool: w.pools(w.pythons.Own, secrets), Gauges: w.metrics.held(), Progress: s.TrainProgress,
	}
	triggers := &watch.Triggers{Store: kept, Stands: s.Schedules().Stands, Open: w.alive}
	rollouts := &rollout.Rollouts{Store: kept, State: s.Dir, Engine: engine, Target: w.target, CheckFront: w.checkFront, Turn: w.turn, Gauges: w.metrics.held()}
	notifier := &activities.Notifier{Engine: engine, Secrets: secrets}

	workflowTypes := map[string]any{
		contract.PipelineWorkflow: workflows.Pipeline,
		contract.LaneWorkflow:     workflows.Lane,
		contract.ApprovalWorkflow: workflows.Approval,
		contract.LockWorkflow:     workflows.Lock,
		contract.WatchWorkflow:    workflows.Watch,
		contract.TrainWorkflow:    gang.Train,
		contract.RolloutWorkflow:  workflows.Rollout,
		contract.NotifyWorkflow:   workflows.Notify,
	}
	activityTypes := map[string]any{
		contract.BeginActivity:    w.begin(engine),
		contract.SettleActivity:   engine.Settle,
		contract.ResolveActivity:  engine.Resolve,
		contract.ExpandActivity:   engine.Expand,
		contract.VerdictActivity:  engine.Verdict,
		contract.GatherActivity:   engine.Gather,
		contract.ChildActivity:    engine.Child,
		contract.SyncActivity:     engine.Sync,
		contract.RecordActivity:   engine.Record,
		contract.FinishActivity:   w.finish(engine),
		contract.KeepActivity:     engine.Keep,
		contract.AliveActivity:    w.alive,
		contract.DeadlockActivity: engine.Deadlock,
		contract.VacantActivity:   w.vacant,

		contract.TriggerLookActivity: triggers.Look,
		contract.TriggerNoteActivity: triggers.Note,

		contract.RunActivity:      step(programs.Run),
		contract.EvaluateActivity: step(programs.Evaluate),
		contract.CleanActivity:    step(cleaner.Clean),
		contract.CompileActivity:  step(compiler.Compile),

		contract.PlanActivity:    trainings.Plan,
		contract.DecideActivity:  trainings.Decide,
		contract.SealActivity:    trainings.Seal,
		contract.AcquireActivity: trainings.Acquire,
		contract.WatchActivity:   trainings.Watch,
		contract.ReleaseActivity: trainings.Release,
		contract.CollectActivity: trainings.Collect,
		contract.AccountActivity: trainings.Account,

		contract.RolloutOpenActivity:    rollouts.Open,
		contract.RolloutTrafficActivity: rollouts.Traffic,
		contract.RolloutReplayActivity:  rollouts.Replay,
		contract.RolloutLookActivity:    rollouts.Look,
		contract.RolloutSettleActivity:  rollouts.Settle,

		contract.NotifyAudienceActivity: notifier.Audience,
		contract.NotifyActivity:         notifier.Send,
	}
	for _, each := range w.workers {
		for name, f := range workflowTypes {
			each.RegisterWorkflowWithOptions(f, workflow.RegisterOptions{Name: name, VersioningBehavior: behaviorOf(name)})
		}
		for name, f := range activityTypes {
			each.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
		}
	}
	return nil
}

// pools opens the pools of environments. A local pool is kept, for it holds its gangs' processes; one of EC2, for it launches one gang at
// a time.
func (w *Worker) pools(python string, secrets *secret.Resolver) func(context.Context, string, *spec.Environment) (training.Pool, error) {
	var mu sync.Mutex
	open := map[string]training.Pool{}
	var gangs local.Gangs
	return func(ctx context.Context, name string, env *spec.Environment) (training.Pool, error) {
		mu.Lock()
		defer mu.Unlock()
		spec := env.Pools[name]
		if spec.Kubernetes != nil {
			return w.kubernetesPool(name, spec)
		}
		key := poolKey(name, spec)
		if spec.EC2 != nil && len(spec.EC2.Registries) > 0 {
			key = poolKey(name, spec, env.Secrets, env.Vault)
		}
		if pool, ok := open[key]; ok {
			return pool, nil
		}
		var pool training.Pool
		var err error
		switch {
		case spec.EC2 != nil:
			pool, err = w.ec2Pool(ctx, name, spec, func(ctx context.Context, name string) (string, error) { return secrets.Value(ctx, env, name) })
		case spec.Local != nil:
			pool = w.localPool(name, spec, python, &gangs)
		default:
			err = fmt.Errorf("pool %s has no driver", name)
		}
		if err != nil {
			return nil, err
		}
		open[key] = pool
		return pool, nil
	}
}

// poolKey tells pools apart: runs whose environments describe a pool, and what it uses of them, alike share it, and its limits.
func poolKey(name string, described ...any) string {
	raw, err := json.Marshal(described)
	if err != nil {
		panic(err) // a spec was read from JSON
	}
	return name + " " + string(raw)
}

// localPool opens a pool of processes on this machine.
func (w *Worker) localPool(name string, spec spec.Pool, python string, gangs *local.Gangs) training.Pool {
	config := w.agentConfig(spec)
	config.Sluice, _ = os.Executable() // the worker would not have started without
	config.ONNXRuntime = os.Getenv(protocol.LibraryVariable)
	config.GPUHelper, config.LogDir, config.PythonEnv, config.Shared = helper.Path(), filepath.Join(w.session.Dir, "logs"), python, true
	if limit := fileCacheOf(spec.Local, w.session.Store.URL()); limit > 0 {
		config.Cache, config.CacheLimit = filepath.Join(w.session.Dir, "cache", "files"), limit
	}
	return local.New(local.Options{
		Dir: filepath.Join(w.session.Dir, "pools", name), Nodes: spec.Local.Nodes, Interruptions: spec.Local.Interruptions,
		Prices: spec.USDPerHour, Limits: spec.Limits,
		AgentPath: AgentPath(), Gangs: gangs, Faults: filepath.Join(w.session.Dir, "gpu-faults.jsonl"),
		Agent: config, Token: w.session.MintAgentToken,
	})
}

// fileCacheOf is how much the nodes of a local pool keep of what they fetch. A store that is a folder is usually on the same machine, and
// its files no nearer in another folder.
func fileCacheOf(pool *spec.LocalPool, storeURL string) spec.Size {
	return spec.FileCacheOf(pool.FileCache, objectstore.IsAddress(storeURL))
}

// AgentPath finds the node agent: $SLUICE_AGENT, else sluice-agent beside this program.
func AgentPath() string {
	if path := os.Getenv("SLUICE_AGENT"); path != "" {
		return path
	}
	exe, err := os.Executable()
	if err != nil {
		return "sluice-agent"
	}
	return filepath.Join(filepath.Dir(exe), "sluice-agent")
}
