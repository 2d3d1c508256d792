package integration

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluiceml/sluice/connect/state"
	"github.com/sluiceml/sluice/internal/testing/kubetest"
	"github.com/sluiceml/sluice/internal/testing/rig"
	"github.com/sluiceml/sluice/internal/testing/s3test"
)

const podsPipeline = `sluice: pipeline/v1
name: pods
params: {trace: {type: string}}
steps:
  fit:
    train:
      command: [python3, trainer.py]
      outputs: {model: {type: model, path: model}}
      metrics: [loss, f1]
      nodes: 2
      pool: burst
      capacity: on_demand
      resources: {cpu: 1}
      checkpoint: {every: 1s}
    env: {TRACE: "${params.trace}", STEPS: "200", STEP_SECONDS: "0.05"}
    gate: metrics.f1 >= 0.5
`

// A training on pods survives the eviction of one of them, with a checkpoint of the very step at which its notice came: agents fetched
// from a bucket, a Temporal that is not on the loopback, the API server, scheduler and controllers of a cluster. Its machines are played.
func TestTrainOnPods(t *testing.T) {
	if _, err := kubetest.Program(); err != nil {
		rig.Skip(t, err)
	}
	cluster, err := kubetest.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Stop)
	namespace := cluster.Namespace(t)
	kubeconfig, err := cluster.Kubeconfig("admin", namespace)
	if err != nil {
		t.Fatal(err)
	}
	cluster.AddNode(t, "m1", kubetest.Machine{})
	s := newPods(t, kubeconfig)
	trace := filepath.Join(s.dir, "trace")

	s.start("worker", "--state", filepath.Join(s.dir, "worker"))
	run := s.run("trace=" + trace)
	run.await("some steps", func() bool { return lines(trace) >= 30 })
	pods, err := cluster.Client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "sluice.dev/node=1"})
	if err != nil || len(pods.Items) != 1 {
		t.Fatalf("pods of node 1: %d, %v, want 1", len(pods.Items), err)
	}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pods.Items[0].Name, Namespace: namespace}}
	if err := cluster.Client.PolicyV1().Evictions(namespace).Evict(t.Context(), eviction); err != nil {
		t.Fatal(err)
	}
	run.await("a second generation", func() bool {
		again, err := cluster.Client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "sluice.dev/generation=2"})
		return err == nil && len(again.Items) == 2
	})
	run.expect(0)
	if n := lines(trace); n != 200 {
		t.Errorf("%d steps were made, want 200: none is lost that had a notice", n)
	}
	s.start("show", run.runID(), "fit", "--state", filepath.Join(s.dir, "worker")).expect(0).says("EvictionByEvictionAPI") // which the pool alone knows
	s.start("logs", run.runID(), "fit", "--generation", "1", "--rank", "1", "--state", filepath.Join(s.dir, "worker")).expect(0).says("rank 1 has no GPU")
	kubetest.Eventually(t, "nothing is left in the cluster", func(ctx context.Context) bool {
		left, err := cluster.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		return err == nil && len(left.Items) == 0
	})
}

// newPods is a sandbox whose commands reach Temporal at an address of this machine that is not the loopback, and a store in a bucket.
func newPods(t *testing.T, kubeconfig string) *sandbox {
	t.Helper()
	dir := t.TempDir()
	s := &sandbox{site: site{t: t, dir: dir, state: filepath.Join(dir, "state")}, project: filepath.Join(dir, "project")}
	for _, sub := range []string{"project", "tmp"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	trainer, err := os.ReadFile("testdata/trainer.py")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(s.project, "trainer.py"), string(trainer))
	write(t, filepath.Join(s.project, "pipeline.yaml"), podsPipeline)
	write(t, filepath.Join(s.project, "environment.yaml"),
		"sluice: environment/v1\nname: pods\npools: {burst: {kubernetes: {context: kubetest, share_keys: true}, runtime: {image: acme/train}, limits: {nodes: 2}}}\n")
	bucket := s3test.Start(t, "acme", s3test.Options{})
	t.Setenv(state.StoreVariable, bucket.At("sluice"))
	t.Cleanup(s.nothingLeft)
	s.env = append(os.Environ(), "TMPDIR="+filepath.Join(dir, "tmp"), "SLUICE_AGENT="+agentPath, "KUBECONFIG="+kubeconfig)
	server := s.serve()
	s.env = append(s.env, "TEMPORAL_ADDRESS="+forward(t, server.info.TemporalAddress))
	return s
}

// forward listens at an address of this machine that others may reach, and passes connections on.
func forward(t *testing.T, to string) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		network, ok := a.(*net.IPNet)
		if !ok || network.IP.IsLoopback() || network.IP.IsLinkLocalUnicast() {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort(network.IP.String(), "0"))
		if err != nil {
			continue
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				from, err := l.Accept()
				if err != nil {
					return
				}
				go pass(from, to)
			}
		}()
		return l.Addr().String()
	}
	t.Skip("this machine has no address but the loopback")
	return ""
}

// pass connects two ends until one is done.
func pass(from net.Conn, to string) {
	defer from.Close()
	onward, err := net.Dial("tcp", to)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer onward.Close()
	done := make(chan struct{}, 2)
	for _, ends := range [][2]net.Conn{{from, onward}, {onward, from}} {
		go func() {
			_, _ = io.Copy(ends[0], ends[1])
			done <- struct{}{}
		}()
	}
	<-done
}

// lines counts those of a file; none where there is no file.
func lines(path string) int {
	raw, _ := os.ReadFile(path)
	return strings.Count(string(raw), "\n")
}
