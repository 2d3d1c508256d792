package embedded

import (
	"context"
	"net/url"
	"os"
	"os/exec"
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

// TestTritonClient: NVIDIA's own client asks a gateway with a real model, over REST and over gRPC on the same port.
func TestTritonClient(t *testing.T) {
	python, err := rig.Program("tritonclient", "bin/python3")
	if err != nil {
		rig.Skip(t, err)
	}
	s := servingtest.NewStore(t)
	server := serve(t, s, gateway.Ports{})
	defer servingtest.Stop(t, server)
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
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	client := exec.CommandContext(ctx, python, "-B", "testdata/ask.py", at.Host, servingtest.Name)
	client.Env = append(os.Environ(), "GRPC_VERBOSITY=ERROR")
	if said, err := client.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	// Three over REST and two over gRPC; those that do not fit the model are nobody's. They are reported once a second.
	var c stats.Counts
	for range poll.Every(ctx, 50*time.Millisecond) {
		snapshots, err := target.Stats(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if c = snapshots[0].At(doc.Revision).Versions[release.Version]; c.Requests >= 5 {
			break
		}
	}
	if c.Requests != 5 || c.Failures != 0 {
		t.Errorf("counts %+v", c)
	}
}
