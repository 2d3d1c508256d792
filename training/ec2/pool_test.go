package ec2

import (
	"context"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/testing/s3test"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/delivery"
	"github.com/sluiceml/sluice/training/pooltest"
	"github.com/sluiceml/sluice/training/protocol"
)

// region is where the tests' pools are.
const region = "eu-central-1"

// world is a pool with all that is around it.
type world struct {
	*Pool
	front    *front
	machines *machines
	store    *store.Store
}

func newWorld(t *testing.T, change func(o *Options)) *world {
	t.Helper()
	w := &world{front: newFront(t)}
	bucket := s3test.Start(t, "acme", s3test.Options{}).At("sluice")
	t.Setenv("AWS_ENDPOINT_URL_EC2", w.front.url)
	priceList(t, map[string]string{"g5.2xlarge": "1.212", "g4dn.xlarge": "0.526"})
	var err error
	if w.store, err = store.Open(t.Context(), bucket); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "sluice-agent")
	if err := os.WriteFile(path, []byte(agentProgram), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{
		Name: strings.ReplaceAll(t.Name(), "/", "."), Limits: spec.PoolLimits{Nodes: 3}, Depot: delivery.New(w.store, path),
		Spec:    spec.EC2Pool{Region: region, Types: []string{"g5.2xlarge", "g4dn.xlarge"}},
		Agent:   protocol.AgentConfig{Address: "temporal.example.com:7233", Namespace: "default", Store: bucket},
		Token:   func(string, string) string { return "it's secret" },
		Environ: func(c protocol.AgentConfig) ([]string, error) { return c.Environ(nil), nil },
		Every:   50 * time.Millisecond,
		Polls:   func(ctx context.Context, queue string) (bool, error) { return w.machines.polls(ctx, queue) },
	}
	if change != nil {
		change(&o)
	}
	if w.Pool, err = New(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	w.opts.Spec.Subnets, w.opts.Spec.Image = subnets(t, w.Pool), "ami-12c6146b" // one that moto has
	w.machines = play(t, w.Pool)
	return w
}

// subnets are those of the account.
func subnets(t *testing.T, p *Pool) []string {
	t.Helper()
	out, err := p.api.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})
	if err != nil || len(out.Subnets) == 0 {
		t.Fatalf("%d subnets, %v", len(out.Subnets), err)
	}
	var ids []string
	for _, subnet := range out.Subnets {
		ids = append(ids, *subnet.SubnetId)
	}
	return ids
}

// reopen is the pool as another worker sees it.
func (w *world) reopen(t *testing.T) *Pool {
	t.Helper()
	p, err := New(t.Context(), w.opts)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// left lists what a gang has left in EC2 and in the store.
func (w *world) left(t *testing.T, key training.Key) []string {
	t.Helper()
	var left []string
	instances, err := w.find(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	left = append(left, idsOf(alive(instances))...)
	template, err := w.template(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if template != nil {
		left = append(left, *template.LaunchTemplateName)
	}
	for info, err := range w.store.Driver().List(t.Context(), "handover/") {
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, info.Key)
	}
	return left
}

func request(generation, least, most int) training.Request {
	return training.Request{
		Key:      training.Key{Run: "r1", Step: "fit", Generation: generation},
		MinNodes: least, MaxNodes: most, Workflow: "train/r1/fit", Capacity: spec.CapacitySpot,
	}
}

func TestPool(t *testing.T) {
	pooltest.Run(t, func(t *testing.T) pooltest.Harness {
		w := newWorld(t, nil)
		return pooltest.Harness{
			Nodes: 3, Pool: w,
			Reopen: func() training.Pool { return w.reopen(t) },
			Kill:   w.machines.kill,
			Alive:  w.machines.alive,
		}
	})
}

// What an instance is told reaches its agent, in a container, and is nowhere any more when the gang is there.
func TestNode(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte("key one\nit's two\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(o *Options) {
		o.Agent.CodecKeys = keys
		o.Token = func(prefix, workflow string) string { return "token of " + prefix + " and " + workflow }
	})
	r := request(1, 2, 2)
	r.Image, r.Resources.SHM = "ghcr.io/acme/train:cu124", 4<<30
	gang, err := w.Acquire(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range gang.Nodes {
		id := n.Queue[strings.LastIndexByte(n.Queue, '/')+1:]
		env := strings.Split(w.machines.read(id, "node/env"), "\n")
		home := w.machines.home(id)
		for _, want := range []string{
			"SLUICE_TEMPORAL_TOKEN=token of node/r1/fit/ and train/r1/fit", "SLUICE_NODE_QUEUE=" + n.Queue, "SLUICE_NODE_HOST=" + n.Address,
			"SLUICE_NODE_DIR=" + filepath.Join(home, "node"), "SLUICE_STORE=" + w.store.URL(), "SLUICE_NODE_IDLE=15m0s",
			"SLUICE_CODEC_KEYS=" + filepath.Join(home, "run", "codec-keys"), "SLUICE_IMDS=" + w.machines.service(id),
		} {
			if !slices.Contains(env, want) {
				t.Errorf("%s is missing in the agent's environment %q", want, env)
			}
		}
		if diff := cmp.Diff("key one\nit's two\n", w.machines.read(id, "run/codec-keys")); diff != "" {
			t.Errorf("the codec's keys (-want +got):\n%s", diff)
		}
		for _, want := range []string{"--network host", "--shm-size 4294967296", "ghcr.io/acme/train:cu124"} {
			if args := w.machines.read(id, "docker"); !strings.Contains(args, want) || strings.Contains(args, "token") {
				t.Errorf("docker was called with %s, want %s and no secret", args, want)
			}
		}
		for name, want := range map[string]os.FileMode{"agent": 0o755, "node": 0o777, "logs": 0o777, "run/codec-keys": 0o444, "run": 0o700} {
			info, err := os.Stat(filepath.Join(home, name))
			if err != nil || info.Mode().Perm() != want {
				t.Errorf("%s: %v, %v, want the permissions %v for the image's user", name, info, err, want)
			}
			mounted := strings.Contains(w.machines.read(id, "docker"), "-v "+filepath.Join(home, name)+":")
			if mounted != (name != "run") {
				t.Errorf("%s is in the container: %v", name, mounted)
			}
		}
		if told := w.machines.read(id, "part-001"); told == "" || strings.Contains(told, "token of node/r1") || strings.Contains(told, "key one") {
			t.Errorf("the user data are %q, want them without a token and keys", told)
		}
		if w.machines.read(id, "run/config") != "" {
			t.Error("the configuration is still on the node")
		}
	}
	for info := range w.store.Driver().List(t.Context(), "handover/") {
		t.Errorf("%s is still in the store", info.Key)
	}
	form := w.front.form("CreateLaunchTemplate")
	for name, want := range map[string]string{
		"MetadataOptions.HttpTokens": "required", "MetadataOptions.HttpPutResponseHopLimit": "1",
		"InstanceInitiatedShutdownBehavior": "terminate", "IamInstanceProfile.Name": "sluice-node",
	} {
		if got := form["LaunchTemplateData."+name]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	release(t, w.Pool, r.Key)
	if left := w.left(t, r.Key); len(left) > 0 {
		t.Errorf("Release has left %q", left)
	}
}

func release(t *testing.T, p *Pool, key training.Key) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := p.Release(ctx, key); err != nil {
		t.Fatal(err)
	}
}

func TestRefusals(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(f *front)
		want   training.Refusal
		says   string
	}{
		{"no capacity", func(f *front) { f.capacity = 1 }, training.ErrNoCapacity, "g5.2xlarge subnet-a"},
		{"no capacity of one type", func(f *front) { f.errors = []string{"Unsupported", "InsufficientInstanceCapacity"} }, training.ErrNoCapacity, "Insufficient"},
		{"no capacity of one type, and a quota for another", func(f *front) { f.errors = []string{"VcpuLimitExceeded", "UnfulfillableCapacity"} }, training.ErrNoCapacity, "Unfulfillable"},
		{"price", func(f *front) { f.errors = []string{"SpotMaxPriceTooLow"} }, training.ErrPrice, "SpotMaxPriceTooLow"},
		{"quota", func(f *front) { f.errors = []string{"VcpuLimitExceeded"} }, training.ErrQuota, "Service Quotas"},
		{"quota of spot", func(f *front) { f.errors = []string{"Unsupported", "MaxSpotInstanceCountExceeded"} }, training.ErrQuota, "Service Quotas"},
		{"no permission", func(f *front) { f.refuse["CreateFleet"] = "UnauthorizedOperation" }, training.ErrPermission, "ec2:CreateFleet"},
		{"no permission for a role", func(f *front) { f.errors = []string{"AuthFailure.ServiceLinkedRoleCreationNotPermitted"} }, training.ErrPermission, "AuthFailure"},
		{"no image", func(f *front) { f.errors = []string{"InvalidAMIID.NotFound"} }, training.ErrInvalid, "`ec2`"},
		{"no such type", func(f *front) { f.refuse["DescribeInstanceTypes"] = "InvalidInstanceType" }, training.ErrInvalid, "`ec2`"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.front.set(test.change)
			_, err := w.Acquire(t.Context(), request(1, 2, 2))
			if training.RefusalOf(err) != test.want || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), string(test.want)) {
				t.Errorf("Acquire: %v, want %v that says %s", err, test.want, test.says)
			}
			if left := w.left(t, request(1, 2, 2).Key); len(left) > 0 {
				t.Errorf("it has left %q", left)
			}
		})
	}
}

// What moto itself refuses has its kind, too.
func TestRefusalsOfMoto(t *testing.T) {
	for name, test := range map[string]struct {
		change func(o *Options)
		want   training.Refusal
		says   string
	}{
		"no such type": {func(o *Options) { o.Spec.Types = []string{"g99.huge"} }, training.ErrInvalid, "g99.huge"},
		"spot is dearer than the limit": {
			func(o *Options) { o.Limits = spec.PoolLimits{USDPerHour: 0.00001} }, training.ErrPrice, "limits.usd_per_hour",
		},
	} {
		w := newWorld(t, test.change)
		_, err := w.Acquire(t.Context(), request(1, 2, 2))
		if training.RefusalOf(err) != test.want || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %v that says %s", name, err, test.want, test.says)
		}
	}
}

func TestCapacityComesBack(t *testing.T) {
	w := newWorld(t, nil)
	w.front.set(func(f *front) { f.capacity = 1 })
	if _, err := w.Acquire(t.Context(), request(1, 2, 3)); !errors.Is(err, training.ErrNoCapacity) {
		t.Fatalf("Acquire: %v, want ErrNoCapacity", err)
	}
	w.front.set(func(f *front) { f.capacity = 2 })
	gang, err := w.Acquire(t.Context(), request(1, 2, 3))
	if err != nil || len(gang.Nodes) != 2 || gang.Capacity != spec.CapacitySpot {
		t.Errorf("got %+v, %v, want the two spot instances that there are", gang, err)
	}
	release(t, w.Pool, request(1, 2, 3).Key)
}

// What is wrong with a node's start is told by what its script said, and the try is ended.
func TestStartFails(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(o *Options)
		image  string
		says   string
		last   string // on the console
		want   error
	}{
		{"there is no such image", nil, "missing", "cannot pull the image missing: manifest unknown", "cannot pull the image missing: manifest unknown", training.ErrInvalid},
		{"the registry is away", nil, "missing", "cannot pull the image missing", "cannot pull the image missing: connection refused", training.ErrNotStarted},
		{"the agent in the store is another", swapAgent, "", "its agent was changed on the way", "its agent was changed on the way", training.ErrNotStarted},
		{
			"the agent ends", func(o *Options) { o.Agent.Address = "nowhere:7233" }, "",
			"ended with code 1: connect to Temporal at nowhere: refused", "its agent ended with code 1", training.ErrNotStarted,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, test.change)
			w.front.set(func(f *front) {
				f.reason = shutItself + " Instance initiated shutdown"
				f.console = base64.StdEncoding.EncodeToString([]byte("[    0.0] boot\nsluice-node: " + test.last + "\nlogin:\n"))
			})
			r := request(1, 1, 1)
			r.Image = test.image
			_, err := w.Acquire(t.Context(), r)
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.last) {
				t.Errorf("Acquire: %v, want %v with what the console said last", err, test.want)
			}
			checkPaid(t, err)
			for _, id := range w.machines.booted() {
				if said := w.machines.read(id, "console"); !strings.Contains(said, test.says) {
					t.Errorf("the console of %s says %q, want %q", id, said, test.says)
				}
				if told := w.machines.read(id, "node/env"); told != "" {
					t.Errorf("the agent of %s was started", id)
				}
			}
			if left := w.left(t, r.Key); len(left) > 0 {
				t.Errorf("it has left %q", left)
			}
		})
	}
}

// A registry that was away when the gang was asked for first does not matter to who asks again.
func TestRegistryComesBack(t *testing.T) {
	w := newWorld(t, nil)
	w.front.set(func(f *front) {
		f.reason = shutItself + " Instance initiated shutdown"
		f.console = base64.StdEncoding.EncodeToString([]byte("sluice-node: cannot pull the image away: dial tcp: connection refused\n"))
	})
	r := request(1, 1, 1)
	r.Image = "away"
	if _, err := w.Acquire(t.Context(), r); !errors.Is(err, training.ErrNotStarted) || !strings.Contains(err.Error(), "connection refused") {
		t.Fatalf("Acquire: %v, want ErrNotStarted and why", err)
	}
	if err := os.WriteFile(filepath.Join(w.machines.dir, "registry"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	gang, err := w.Acquire(t.Context(), r)
	if err != nil || len(gang.Nodes) != 1 {
		t.Fatalf("Acquire, when the registry is back: %+v, %v", gang, err)
	}
	release(t, w.Pool, r.Key)
}

// checkPaid checks that the error of Acquire says which instance was paid for.
func checkPaid(t *testing.T, err error) {
	t.Helper()
	var started *training.FailedStartError
	if !errors.As(err, &started) || len(started.Gangs) != 1 || len(started.Gangs[0].Nodes) != 1 {
		t.Fatalf("Acquire: %v, want an error with the instance that was paid for", err)
	}
	n := started.Gangs[0].Nodes[0]
	if n.Type != "g5.2xlarge" && n.Type != "g4dn.xlarge" || !strings.HasPrefix(n.Zone, region) || n.BeganAt.IsZero() || started.Gangs[0].Capacity != spec.CapacitySpot {
		t.Errorf("paid for %+v, want its type, zone and time", started.Gangs[0])
	}
}

// When EC2 says when an instance ended, that is its end.
func TestTransitioned(t *testing.T) {
	for said, want := range map[string]time.Time{
		"User initiated (2026-03-14 09:26:53 GMT)": time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC),
		"User initiated (2026-03-14 09:26:53 UTC)": time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC),
		"Server.SpotInstanceTermination":           {},
		"":                                         {},
	} {
		if got := transitioned(types.Instance{StateTransitionReason: &said}); !got.Equal(want) {
			t.Errorf("%q: ended at %v, want %v", said, got, want)
		}
	}
}

// swapAgent puts another program of the same size where the store has the agent.
func swapAgent(o *Options) {
	driver, err := store.Open(context.Background(), o.Agent.Store)
	if err != nil {
		panic(err)
	}
	other := strings.Replace(agentProgram, "sleep 600", "sleep 601", 1)
	if _, err := o.Depot.Agent(context.Background(), time.Minute); err != nil {
		panic(err)
	}
	for info, err := range driver.Driver().List(context.Background(), "blobs/") {
		if err == nil {
			err = driver.Driver().Write(context.Background(), info.Key, strings.NewReader(other), store.WriteOptions{})
		}
		if err != nil {
			panic(err)
		}
	}
}

func TestInterruption(t *testing.T) {
	w := newWorld(t, nil)
	gang, err := w.Acquire(t.Context(), request(1, 2, 2))
	if err != nil {
		t.Fatal(err)
	}
	w.front.set(func(f *front) {
		f.reason = "Server.SpotInstanceTermination Server.SpotInstanceTermination: Spot instance termination"
	})
	w.machines.kill(t, request(1, 2, 2).Key, 1)
	loss, err := w.Watch(t.Context(), request(1, 2, 2).Key, nil)
	if err != nil {
		t.Fatal(err)
	}
	id, _, _ := strings.Cut(gang.Nodes[1].Name, " ")
	want := training.Loss{
		Nodes:  []int{1},
		Reason: "node 1: instance " + id + " no longer exists: Server.SpotInstanceTermination: Spot instance termination",
	}
	if diff := cmp.Diff(want, loss); diff != "" {
		t.Errorf("loss (-want +got):\n%s", diff)
	}
	release(t, w.Pool, request(1, 2, 2).Key)
}

// A worker that dies when its fleet was launched, but before it knows, leaves a gang that the next one finds.
func TestWorkerDiesInTheMiddle(t *testing.T) {
	w := newWorld(t, nil)
	ctx, die := context.WithCancel(t.Context())
	w.front.set(func(f *front) { f.launched = func(f *front) { f.blind = unseenLooks; die() } })
	if _, err := w.Acquire(ctx, request(1, 2, 2)); err == nil {
		t.Fatal("a worker that died has got its gang")
	}
	gang, err := w.reopen(t).Acquire(t.Context(), request(1, 2, 2)) // which does not see the instances yet
	if err != nil {
		t.Fatal(err)
	}
	if n := w.front.count("CreateFleet"); n != 2 {
		t.Errorf("EC2 was asked for a fleet %d times, want 2", n)
	}
	if alive := w.machines.alive(t, request(1, 2, 2).Key); alive != 2 || len(gang.Nodes) != 2 {
		t.Errorf("%d instances run, and the gang is %+v", alive, gang)
	}
	if n := w.front.fleets(); n != 1 {
		t.Errorf("%d fleets were launched, want 1", n)
	}
	release(t, w.Pool, request(1, 2, 2).Key)
}

func TestTwoWorkersAtOnce(t *testing.T) {
	w := newWorld(t, nil)
	type result struct {
		gang training.Gang
		err  error
	}
	results := make(chan result)
	for _, p := range []*Pool{w.Pool, w.reopen(t)} {
		go func() {
			gang, err := p.Acquire(t.Context(), request(1, 2, 2))
			results <- result{gang, err}
		}()
	}
	first, second := <-results, <-results
	if first.err != nil || second.err != nil {
		t.Fatalf("%v, %v", first.err, second.err)
	}
	if diff := cmp.Diff(first.gang, second.gang); diff != "" {
		t.Errorf("they got different gangs:\n%s", diff)
	}
	if alive := w.machines.alive(t, request(1, 2, 2).Key); alive != 2 {
		t.Errorf("%d instances run, want 2", alive)
	}
	release(t, w.Pool, request(1, 2, 2).Key)
}

func TestReleaseOfATry(t *testing.T) {
	w := newWorld(t, nil)
	ctx, die := context.WithCancel(t.Context())
	w.front.set(func(f *front) { f.launched = func(f *front) { f.blind = unseenLooks; die() } })
	if _, err := w.Acquire(ctx, request(1, 2, 2)); err == nil {
		t.Fatal("a worker that died has got its gang")
	}
	release(t, w.Pool, request(1, 2, 2).Key)
	if left := w.left(t, request(1, 2, 2).Key); len(left) > 0 {
		t.Errorf("Release has left %q", left)
	}
}

func TestResources(t *testing.T) {
	w := newWorld(t, nil)
	for _, test := range []struct {
		want  spec.Resources
		types []string
		says  string
	}{
		{spec.Resources{}, []string{"g5.2xlarge", "g4dn.xlarge"}, ""},
		{spec.Resources{Memory: 20 << 30}, []string{"g5.2xlarge"}, ""},
		{spec.Resources{GPUType: []string{"NVIDIA T4", "L4"}}, []string{"g4dn.xlarge"}, ""},
		{spec.Resources{CPU: 64}, nil, "g5.2xlarge has 8 cores, but the step needs 64; g4dn.xlarge has 4 cores, but the step needs 64"},
		{spec.Resources{GPU: 2}, nil, "g5.2xlarge has 1 GPUs, but the step needs 2"},
		{spec.Resources{GPU: 1, GPUType: []string{"A100"}}, nil, "g5.2xlarge has the GPU A10G, but the step needs A100"},
		{spec.Resources{Memory: 64 << 30}, nil, "g5.2xlarge has 32GiB of memory, but the step needs 64GiB"},
	} {
		fit, err := w.fitting(t.Context(), test.want)
		var got []string
		for _, t := range fit {
			got = append(got, string(t.InstanceType))
		}
		if diff := cmp.Diff(test.types, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", test.want, diff)
		}
		if test.says != "" && (!errors.Is(err, training.ErrTooLarge) || !strings.Contains(err.Error(), test.says)) {
			t.Errorf("%+v: %v, want ErrTooLarge that says %s", test.want, err, test.says)
		}
	}
}

func TestMoneyLimit(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.Prices, o.Limits = spec.Prices{Spot: 2}, spec.PoolLimits{USDPerHour: 5}
	})
	if _, err := w.Acquire(t.Context(), request(1, 3, 3)); !errors.Is(err, training.ErrTooLarge) {
		t.Errorf("three for six dollars: %v, want ErrTooLarge", err)
	}
	gang, err := w.Acquire(t.Context(), request(1, 1, 3))
	if err != nil || len(gang.Nodes) != 2 || gang.USDPerHour != 2 {
		t.Errorf("got %+v, %v, want the two that five dollars buy", gang, err)
	}
	if _, err := w.Acquire(t.Context(), request(2, 1, 1)); !errors.Is(err, training.ErrNoCapacity) {
		t.Errorf("a third: %v, want ErrNoCapacity", err)
	}
	release(t, w.Pool, request(1, 1, 3).Key)
}

func TestThrottled(t *testing.T) {
	w := newWorld(t, nil)
	w.front.set(func(f *front) { f.refuse["DescribeInstances"] = "RequestLimitExceeded" })
	time.AfterFunc(500*time.Millisecond, func() { w.front.set(func(f *front) { clear(f.refuse) }) })
	if _, err := w.reopen(t).find(t.Context(), request(1, 1, 1).Key); err != nil {
		t.Errorf("a call that was throttled for half a second: %v", err)
	}
	if n := w.front.count("DescribeInstances"); n < 2 {
		t.Errorf("it was called %d times", n)
	}
}

// Where the pool does not say what an instance costs, AWS does.
func TestPriceOfAGang(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Limits.USDPerHour = 2 })
	for capacity, want := range map[string]float64{
		spec.CapacitySpot:     0.00001, // moto's price of everything
		spec.CapacityOnDemand: 1.212,
	} {
		r := request(1, 1, 1)
		r.Capacity = capacity
		gang, err := w.Acquire(t.Context(), r)
		if err != nil || gang.Capacity != capacity || gang.USDPerHour != want {
			t.Errorf("%s: got %+v, %v, want $%v an hour", capacity, gang, err, want)
		}
		release(t, w.Pool, r.Key)
	}
}

// A worker that goes on with a try buys what that was begun for, whatever it would have asked for itself.
func TestTryIsGoneOnWith(t *testing.T) {
	w := newWorld(t, nil)
	spot, onDemand := request(1, 1, 2), request(1, 1, 1)
	onDemand.Capacity = spec.CapacityOnDemand
	begun, err := w.openTry(t.Context(), spot, 2, nil, types.RequestLaunchTemplateData{})
	if err != nil {
		t.Fatal(err)
	}
	gone, err := w.openTry(t.Context(), onDemand, 1, nil, types.RequestLaunchTemplateData{})
	if diff := cmp.Diff(begun, gone, cmp.AllowUnexported(try{})); diff != "" || err != nil {
		t.Errorf("another worker has another try, %v (-begun +gone on with):\n%s", err, diff)
	}
	gang, err := w.Acquire(t.Context(), onDemand)
	if err != nil || gang.Capacity != spec.CapacitySpot || len(gang.Nodes) != 2 {
		t.Errorf("got %+v, %v, want the two spot instances that were begun", gang, err)
	}
	release(t, w.Pool, spot.Key)
}
