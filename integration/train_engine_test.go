package integration

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/activities/engine"
	gangactivities "github.com/sluiceml/sluice/activities/gang"
	"github.com/sluiceml/sluice/connect/embedded"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault/boundary"
	"github.com/sluiceml/sluice/internal/heartbeat"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/gpu/gputest"
	"github.com/sluiceml/sluice/training/gpu/nvml"
	"github.com/sluiceml/sluice/training/local"
	"github.com/sluiceml/sluice/training/protocol"
	"github.com/sluiceml/sluice/workflows/gang"
)

// engineVariable, in the environment of this test's own executable, makes it an engine: Temporal and a worker, on the state folder that
// it names.
const engineVariable = "SLUICE_TEST_TRAIN_ENGINE"

// agentPath is where TestMain puts the agent.
var agentPath string

func TestMain(m *testing.M) {
	if gputest.Plays() {
		os.Exit(gputest.Main(nvml.Main))
	}
	if dir := os.Getenv(engineVariable); dir != "" {
		if err := runTrainEngine(dir); err != nil {
			fmt.Fprintln(os.Stderr, "engine:", err)
			os.Exit(1)
		}
		return
	}
	if dir := os.Getenv(serverVariable); dir != "" {
		if err := runServer(dir); err != nil {
			fmt.Fprintln(os.Stderr, "server:", err)
			os.Exit(1)
		}
		return
	}
	if os.Getenv("SLUICE_TEST_NO_CACHE") != "" {
		sdkworker.SetStickyWorkflowCacheSize(0)
	}
	flag.Parse()
	if parallel := flag.Lookup("test.parallel").Value; parallel.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		// Unless told otherwise: these tests wait for other processes more than they work.
		parallel.Set(strconv.Itoa(2 * runtime.GOMAXPROCS(0)))
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "sluice-binaries-") // not the name of any program: tests look for processes by it
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		if agentPath, err = buildAgent(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

// buildAgent builds the agent, unless SLUICE_BIN names the folder of one that has been built.
func buildAgent(dir string) (string, error) {
	if bin := os.Getenv("SLUICE_BIN"); bin != "" {
		return filepath.Abs(filepath.Join(bin, "sluice-agent"))
	}
	path := filepath.Join(dir, "sluice-agent")
	build := exec.Command("go", "build", "-o", path, "github.com/sluiceml/sluice/cmd/sluice-agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the agent: %w\n%s", err, out)
	}
	return path, nil
}

// engineConfig is what a test tells its engine, in the file engine.json of the state folder.
type engineConfig struct {
	AgentPath string
	// Zombies makes Release leave the agents alone, as a pool does that cannot reach its nodes any more.
	Zombies bool
	// GPUs is the folder of gputest that says what happens to the machine's GPUs; empty: it has none.
	GPUs string
}

// runTrainEngine serves until SIGTERM.
func runTrainEngine(dir string) error {
	var config engineConfig
	raw, err := os.ReadFile(filepath.Join(dir, "engine.json"))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, &config); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	token, err := embedded.EnsureToken(dir)
	if err != nil {
		return err
	}
	server, err := embedded.Start(ctx, embedded.Options{Dir: dir, Token: token})
	if err != nil {
		return err
	}
	defer server.Stop()
	c, err := dialEngine(server.Address(), token)
	if err != nil {
		return err
	}
	defer c.Close()
	s, err := store.Open(ctx, storeURL(dir))
	if err != nil {
		return err
	}
	pools := &testPools{
		zombies: config.Zombies,
		options: local.Options{
			AgentPath: config.AgentPath,
			Agent: protocol.AgentConfig{
				Address: server.Address(), Namespace: client.DefaultNamespace,
				Store: storeURL(dir), LogDir: filepath.Join(dir, "logs"),
			},
			Token: token.MintAgentToken,
		},
		dir: filepath.Join(dir, "pools"),
	}
	if config.GPUs != "" {
		pools.options.Agent.GPUHelper, pools.options.Faults = os.Args[0], filepath.Join(dir, "gpu-faults.jsonl")
	}
	defer pools.close()
	w := sdkworker.New(c, contract.TaskQueue, sdkworker.Options{Interceptors: []interceptor.WorkerInterceptor{&boundary.Interceptor{}, &heartbeat.Interceptor{}}})
	w.RegisterWorkflowWithOptions(gang.Train, workflow.RegisterOptions{Name: contract.TrainWorkflow})
	t := &gangactivities.Trainings{Store: s, Engine: engine.NewEngine(s), LogDir: filepath.Join(dir, "logs"), Pool: pools.open}
	for name, function := range map[string]any{
		contract.PlanActivity: t.Plan, contract.DecideActivity: t.Decide, contract.SealActivity: t.Seal, contract.AcquireActivity: t.Acquire,
		contract.WatchActivity: t.Watch, contract.ReleaseActivity: t.Release, contract.CollectActivity: t.Collect, contract.AccountActivity: t.Account,
	} {
		w.RegisterActivityWithOptions(function, activity.RegisterOptions{Name: name})
	}
	if err := w.Start(); err != nil {
		return err
	}
	// The address goes last: whoever reads it finds the engine ready.
	address := filepath.Join(dir, addressFile)
	if err := os.WriteFile(address+".tmp", []byte(server.Address()), 0o600); err != nil {
		return err
	}
	if err := os.Rename(address+".tmp", address); err != nil {
		return err
	}
	<-ctx.Done()
	w.Stop()
	return nil
}

// addressFile, in the state folder, tells where a ready engine listens.
const addressFile = "address"

func dialEngine(address string, token embedded.Token) (client.Client, error) {
	return client.Dial(client.Options{
		HostPort: address, Identity: "engine", HeadersProvider: ownerHeaders(token), Logger: log.NewStructuredLogger(slog.New(slog.NewTextHandler(os.Stderr, nil))),
	})
}

type ownerHeaders embedded.Token

// GetHeaders implements client.HeadersProvider.
func (h ownerHeaders) GetHeaders(context.Context) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(h)}, nil
}

func storeURL(dir string) string { return "file://" + filepath.Join(dir, "store") }

// testPools opens local pools, each once.
type testPools struct {
	options local.Options
	dir     string
	zombies bool

	mu     sync.Mutex
	opened map[string]*local.Pool
}

func (p *testPools) open(_ context.Context, name string, env *spec.Environment) (training.Pool, error) {
	spec := env.Pools[name]
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.opened == nil {
		p.opened = map[string]*local.Pool{}
	}
	if p.opened[name] == nil {
		o := p.options
		o.Dir, o.Nodes, o.Interruptions = filepath.Join(p.dir, name), spec.Local.Nodes, spec.Local.Interruptions
		o.Prices, o.Limits = spec.USDPerHour, spec.Limits
		p.opened[name] = local.New(o)
	}
	if p.zombies {
		return forgetful{p.opened[name]}, nil
	}
	return p.opened[name], nil
}

func (p *testPools) close() {
	for _, pool := range p.opened {
		pool.Close()
	}
}

// forgetful is a pool that cannot reach its nodes when it should release them.
type forgetful struct{ training.Pool }

func (forgetful) Release(context.Context, training.Key) ([]training.Gang, error) { return nil, nil }
