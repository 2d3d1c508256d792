package ec2

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/sluiceml/sluice/internal/proc"
	"github.com/sluiceml/sluice/training"
)

// machines play the machines of a pool's instances: each runs its user data as cloud-init would, with paths and programs of its own.
type machines struct {
	t    *testing.T
	pool *Pool // for its sight of EC2 alone
	dir  string

	mu      sync.Mutex
	running map[string]*machine
}

type machine struct {
	script  *proc.Process
	service string // the address of its metadata service
}

// programs stand before those of this machine: an instance's shutdown ends no more than its script, and docker runs its entrypoint with
// the environment that a container would have.
var programs = map[string]string{
	"shutdown":   "exit 0\n",
	"nvidia-smi": "exit 1\n",
	"docker": `
case "$1 $3" in
"login AWS")
    [ "$2 $4" = "--username --password-stdin" ] && [ "$(cat)" = "it's ECR's" ] || { echo "wrong password" >&2; exit 1; }
    echo '{"auths": {"ECR": {}}}' >>"$DOCKER_CONFIG/config.json"
    exit 0
    ;;
"pull away")
    [ -e "$SLUICE_HOME/../registry" ] || { echo "dial tcp: connection refused" >&2; exit 1; }
    exit 0
    ;;
"pull missing") echo "trying" >&2; echo "manifest unknown" >&2; exit 1 ;;
pull*)
    cat "${DOCKER_CONFIG:-/nowhere}/config.json" >"$SLUICE_HOME/logins" 2>&1 || :
    exit 0
    ;;
esac
echo "$@" >"$SLUICE_HOME/docker"
entry=
set -- "$@" end
while [ "$1" != end ]; do
    case $1 in
    --entrypoint) entry=$2 ;;
    -e) case $2 in *=*) ;; *) set -- "$@" "$2=$(printenv "$2")" ;; esac ;;
    esac
    shift
done
shift
exec env -i PATH="$PATH" "$@" "$entry"
`,
}

// agentProgram is what is delivered as the agent: it says what it was told, and serves.
const agentProgram = `#!/bin/sh
case "$*" in
"ecr-password 2.dkr.ecr.eu-central-1.amazonaws.com") echo "access denied: no role" >&2; exit 1 ;;
ecr-password*) echo "it's ECR's"; exit 0 ;;
esac
case $SLUICE_TEMPORAL_ADDRESS in
nowhere*) echo "first" >&2; echo "connect to Temporal at nowhere: refused" >&2; exit 1 ;;
esac
env >"$SLUICE_NODE_DIR/env"
: >"$SLUICE_NODE_DIR/polls"
exec sleep 600
`

// play begins to play the machines of a pool.
func play(t *testing.T, p *Pool) *machines {
	t.Helper()
	m := &machines{t: t, pool: p, dir: t.TempDir(), running: map[string]*machine{}}
	for name, text := range programs {
		path := filepath.Join(m.dir, "bin", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil { //nolint:gosec // it is a program
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.turn(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		for _, one := range m.running {
			one.script.Kill()
		}
	})
	return m
}

// turn boots what EC2 has launched and switches off what it has ended, until ctx ends.
func (m *machines) turn(ctx context.Context) {
	for ctx.Err() == nil {
		instances, err := m.pool.describe(ctx, tagFilter(tagPool, m.pool.opts.Name))
		if ctx.Err() == nil && err != nil {
			m.t.Errorf("the machines cannot see their instances: %v", err)
			return
		}
		for _, instance := range instances {
			m.mu.Lock()
			one := m.running[*instance.InstanceId]
			switch {
			case one == nil && lives(instance):
				if one := m.boot(ctx, instance); one != nil {
					m.running[*instance.InstanceId] = one
				}
			case one != nil && !lives(instance):
				one.script.Kill()
			case one != nil && ended(one.script):
				m.terminate(ctx, *instance.InstanceId)
			}
			m.mu.Unlock()
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func ended(p *proc.Process) bool {
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}

// boot runs an instance's user data.
func (m *machines) boot(ctx context.Context, instance types.Instance) *machine {
	id := *instance.InstanceId
	script := m.userData(ctx, id)
	if script == nil {
		return nil
	}
	path := filepath.Join(m.home(id), "part-001")
	if err := os.MkdirAll(m.home(id), 0o755); err != nil {
		m.t.Error(err)
	}
	if err := os.WriteFile(path, script, 0o600); err != nil {
		m.t.Error(err)
	}
	service := metadataService(m.t, map[string]string{"instance-id": id, "local-ipv4": aws.ToString(instance.PrivateIpAddress)})
	p, err := proc.Start(context.WithoutCancel(ctx), proc.Command{
		Path: "/bin/sh", Args: []string{path, "node"}, Dir: m.home(id),
		Env: []string{
			"PATH=" + filepath.Join(m.dir, "bin") + ":" + os.Getenv("PATH"), "SLUICE_IMDS=" + service, "SLUICE_HOME=" + m.home(id),
			"SLUICE_DISK=/nowhere", "SLUICE_RUN=" + filepath.Join(m.home(id), "run"), "SLUICE_CONSOLE=" + filepath.Join(m.home(id), "console"),
		},
	})
	if err != nil {
		m.t.Error(err)
		return nil
	}
	return &machine{script: p, service: service}
}

func (m *machines) home(id string) string { return filepath.Join(m.dir, id) }

// booted are the IDs of the instances whose machines were started.
func (m *machines) booted() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.running))
}

// service is the address of an instance's metadata service.
func (m *machines) service(id string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.running[id].service
}

// read returns a file of an instance's machine; "" when it is not there.
func (m *machines) read(id, name string) string {
	raw, err := os.ReadFile(filepath.Join(m.home(id), name))
	if err != nil {
		return ""
	}
	return string(raw)
}

// userData is what an instance was launched with.
func (m *machines) userData(ctx context.Context, id string) []byte {
	out, err := m.pool.api.DescribeInstanceAttribute(ctx, &ec2.DescribeInstanceAttributeInput{
		InstanceId: &id, Attribute: types.InstanceAttributeNameUserData,
	})
	if err != nil {
		if ctx.Err() == nil {
			m.t.Error(err)
		}
		return nil
	}
	packed, err := base64.StdEncoding.DecodeString(aws.ToString(out.UserData.Value))
	if err != nil {
		m.t.Error(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		m.t.Error(err)
		return nil
	}
	script, err := io.ReadAll(r)
	if err != nil {
		m.t.Error(err)
	}
	return script
}

// terminate has EC2 end an instance, as the spot market does, or somebody at the console.
func (m *machines) terminate(ctx context.Context, id string) {
	if _, err := m.pool.api.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{id}}); err != nil && ctx.Err() == nil {
		m.t.Error(err)
	}
}

// polls plays Temporal's view of the agents.
func (m *machines) polls(_ context.Context, queue string) (bool, error) {
	id := queue[strings.LastIndexByte(queue, '/')+1:]
	_, err := os.Stat(filepath.Join(m.home(id), "node", "polls"))
	return err == nil, nil
}

// kill takes a node of a gang away behind the pool's back.
func (m *machines) kill(t *testing.T, key training.Key, node int) {
	t.Helper()
	instances, err := m.pool.find(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	m.terminate(t.Context(), *newest(instances)[node].InstanceId)
}

// alive counts a gang's instances that EC2 has running, and whose agent runs.
func (m *machines) alive(t *testing.T, key training.Key) int {
	t.Helper()
	instances, err := m.pool.find(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, instance := range instances {
		if one := m.running[*instance.InstanceId]; lives(instance) && one != nil && !ended(one.script) {
			n++
		}
	}
	return n
}
