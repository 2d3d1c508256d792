package embedded

import (
	"bufio"
	"bytes"
	"context"
	"net/url"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/internal/testing/rig"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/serving/servingtest"
	"github.com/sluiceml/sluice/serving/stats"
)

// askedByTriton is a server with a real model, for NVIDIA's client.
type askedByTriton struct {
	*gateway.Server
	python, host string
	target       *gateway.Target
	doc          routing.Document
	release      routing.Release
}

func openForTriton(t *testing.T) askedByTriton {
	t.Helper()
	python, err := rig.Program("tritonclient", "bin/python3")
	if err != nil {
		rig.Skip(t, err)
	}
	s := servingtest.NewStore(t)
	server := serve(t, s, gateway.Ports{})
	target := gateway.NewTarget(s, servingtest.Name, server.URL(), server.ControlURL())
	ref, err := s.PutTree(t.Context(), artifact.Model, onnxtest.Folder(t, onnxtest.EchoSmall), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	doc, release, err := target.Load(t.Context(), 0, routing.Release{Model: ref, Run: "run", Step: "ship"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if doc, err = target.SetTraffic(t.Context(), doc.Revision, gateway.Split{Weights: map[string]float64{release.Version: 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	return askedByTriton{Server: server, python: python, host: at.Host, target: target, doc: doc, release: release}
}

// client runs a script, which asks with NVIDIA's client.
func (a askedByTriton) client(ctx context.Context, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, a.python, "-B", "testdata/"+script, a.host, servingtest.Name)
	cmd.Env = append(os.Environ(), "GRPC_VERBOSITY=ERROR")
	return cmd
}

// TestTritonClient: NVIDIA's own client asks a gateway with a real model, over REST and over gRPC on the same port.
func TestTritonClient(t *testing.T) {
	a := openForTriton(t)
	defer servingtest.Stop(t, a.Server)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if said, err := a.client(ctx, "ask.py").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	// Three over REST and two over gRPC; those that do not fit the model are nobody's. They are reported once a second.
	var c stats.Counts
	for range poll.Every(ctx, 50*time.Millisecond) {
		snapshots, err := a.target.Stats(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if c = snapshots[0].At(a.doc.Revision).Versions[a.release.Version]; c.Requests >= 5 {
			break
		}
	}
	if c.Requests != 5 || c.Failures != 0 {
		t.Errorf("counts %+v", c)
	}
}

// TestTritonClientStreams: what only Triton's protocol has. The server ends while a stream is open.
func TestTritonClientStreams(t *testing.T) {
	a := openForTriton(t)
	stop := sync.OnceFunc(func() { servingtest.Stop(t, a.Server) })
	defer stop()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	client := a.client(ctx, "stream.py")
	var failed bytes.Buffer
	client.Stderr = &failed
	out, err := client.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	if said, _ := bufio.NewReader(out).ReadString('\n'); said == "open\n" {
		stop()
	}
	if err := client.Wait(); err != nil {
		t.Errorf("%v\n%s", err, failed.String())
	}
}
