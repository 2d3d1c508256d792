package pipelines_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/proc"
	"github.com/sluiceml/sluice/pipelines"
	"github.com/sluiceml/sluice/pipelines/runner"
)

// A job on a Flink cluster of its own is canceled there, and not only forgotten here.
func TestClusterCanceled(t *testing.T) {
	needFlink(t)
	master := startCluster(t)
	dir := t.TempDir()
	j := job(dir, chain(t, heldInput(t), slowChain))
	j.Runner = pipelines.Runner{Flink: &spec.FlinkRunner{Master: master}}
	err := midRun(t, j, func(cancel context.CancelFunc) { cancel() })
	if errorType(err) != fault.Canceled {
		t.Errorf("got %v, want a canceled error", err)
	}
	nothingLeft(t, dir)
	var all struct{ Jobs []struct{ State string } }
	if err := fetch(master, "/jobs/overview", &all); err != nil {
		t.Fatal(err)
	}
	if len(all.Jobs) != 1 || all.Jobs[0].State != "CANCELED" {
		t.Errorf("jobs on the cluster: %+v, want one that was canceled", all.Jobs)
	}
}

// startCluster starts a Flink cluster of two processes from the job server's jars, and returns the address of its REST interface.
func startCluster(t *testing.T) (master string) {
	t.Helper()
	jars, err := runner.DefaultJars()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	rpc, rest := freePort(t), freePort(t)
	config := fmt.Sprintf(`
jobmanager: {rpc: {address: localhost, port: %d}, bind-host: localhost, memory: {process: {size: 1g}}}
rest: {address: localhost, bind-address: localhost, port: %d}
taskmanager:
  host: localhost
  bind-host: localhost
  numberOfTaskSlots: 2
  cpu: {cores: 2}
  memory:
    task: {heap: {size: 256m}, off-heap: {size: 0m}}
    framework: {heap: {size: 128m}, off-heap: {size: 128m}}
    managed: {size: 128m}
    network: {min: 64m, max: 64m}
    jvm-metaspace: {size: 256m}
    jvm-overhead: {min: 192m, max: 192m}
io.tmp.dirs: %s
`, rpc, rest, dir)
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(config), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, main := range []string{"entrypoint.StandaloneSessionClusterEntrypoint", "taskexecutor.TaskManagerRunner"} {
		said := proc.NewTail(40)
		p, err := proc.Start(context.WithoutCancel(t.Context()), proc.Command{
			Path: "java", Stdout: said, Stderr: said,
			Args: []string{
				"-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "--add-opens=java.base/java.util=ALL-UNNAMED",
				"--add-opens=java.base/java.lang=ALL-UNNAMED", "-cp", filepath.Join(jars, "*"), "org.apache.flink.runtime." + main, "--configDir", dir,
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			p.Kill()
			<-p.Done()
			if t.Failed() {
				t.Logf("%s:\n%s", main, said)
			}
		})
	}
	master = fmt.Sprintf("localhost:%d", rest)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(2 * time.Minute); ; {
		var overview struct{ Taskmanagers int }
		if err := fetch(master, "/overview", &overview); err == nil && overview.Taskmanagers == 1 {
			return master
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("the Flink cluster does not start")
		}
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func fetch(master, path string, answer any) error {
	resp, err := http.Get("http://" + master + path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(resp.Body).Decode(answer)
}
