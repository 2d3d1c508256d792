package pipelines

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/pipelines/rows"
	"github.com/sluiceml/sluice/pipelines/runner"
)

// Runner says where the Beam graph of a job runs. If Flink is nil, the graph runs in the child process.
type Runner struct {
	Flink *spec.FlinkRunner `json:"flink,omitempty"`
}

// RunnerOf returns the runner that an environment configures.
func RunnerOf(c spec.CleanSettings) Runner { return Runner{Flink: c.Flink} }

// inProcess reports whether the graph runs entirely in the child process.
func (r Runner) inProcess() bool { return r.Flink == nil }

// elsewhere reports whether processes other than the child do the work, possibly on other machines.
func (r Runner) elsewhere() bool {
	return r.Flink != nil && r.Flink.Master != "" && !loopback(r.Flink.Master)
}

// loopback reports whether an address is a loopback address.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// bundles returns how many bundles of a stage the cluster processes at a time.
func (r Runner) bundles(workers int) int {
	if r.Flink != nil && r.Flink.Parallelism > 0 {
		return r.Flink.Parallelism
	}
	return workers
}

// ownRunner is the name of the Beam runner for graphs that run in this process. Tests replace it.
var ownRunner = runner.InProcess

// runGraph runs the job's graph on the job's runner.
func runGraph(ctx context.Context, job Job, graph *beam.Pipeline) error {
	if job.Runner.inProcess() {
		if _, err := beam.Run(ctx, ownRunner, graph); err != nil {
			return fmt.Errorf("run the Beam pipeline: %s", rows.Clip(err.Error(), maxBeamError))
		}
		return nil
	}
	return runOnFlink(ctx, job, graph)
}

// runOnFlink runs the graph on a Flink job server that it starts for this job alone.
func runOnFlink(ctx context.Context, job Job, graph *beam.Pipeline) error {
	dir := filepath.Join(job.WorkDir, "flink")
	if err := os.Mkdir(dir, 0o777); err != nil {
		return err
	}
	server, err := runner.StartFlink(ctx, runner.FlinkConfig{
		Jars: job.Runner.Flink.JobServer, Master: job.Runner.Flink.Master, Dir: dir, Memory: int64(job.Memory),
	})
	if err != nil {
		return err
	}
	defer server.Stop()
	err = runOn(ctx, job, graph, server.Endpoint)
	if err != nil && ctx.Err() == nil && errors.Is(err, runner.ErrGone) {
		if ended := server.Ended(); ended != nil {
			return ended
		}
	}
	return err
}

// runOn runs the graph on a job service.
func runOn(ctx context.Context, job Job, graph *beam.Pipeline, endpoint string) error {
	p := runner.Job{
		Endpoint: endpoint, Name: "sluice" + strings.ToLower(rand.Text()[:16]), Parallelism: job.Runner.bundles(job.Parallelism),
	}
	if f := job.Runner.Flink; f.Master != "" {
		p.Cancel = func(ctx context.Context) error { return runner.CancelFlink(ctx, f.Master, p.Name) }
	}
	if !job.Runner.elsewhere() {
		return runner.RunJob(ctx, graph, p)
	}
	p.Worker = filepath.Join(job.WorkDir, "worker")
	p.Env = map[string]string{"GOMEMLIMIT": strconv.FormatInt(int64(job.Memory)/10*8, 10)}
	if err := errors.Join(os.Mkdir(workerReportsDir(job.WorkDir), 0o777), shareProgram(p.Worker)); err != nil {
		return fmt.Errorf("put the worker into the work folder: %w", err)
	}
	s := sessionOf(job.WorkDir)
	stop := s.followWorkers(job.WorkDir)
	err := runner.RunJob(ctx, graph, p)
	stop()
	if err != nil && !s.over() {
		return fmt.Errorf("%w\nThe workers share the folder %s with this machine: it must be on a file system that all machines of the "+
			"cluster mount at the same path", err, job.WorkDir)
	}
	return err
}

// refuse returns an error if the job cannot run on a cluster: programs exist only on this machine, and secrets could reach the other
// machines only through the graph, which anyone with access to the cluster can read.
func (p *plan) refuse(job Job) error {
	if !job.Runner.elsewhere() {
		return nil
	}
	for _, n := range p.nodes {
		if n.row != nil && n.row.Program != nil {
			return fault.Errorf(fault.Invalid, "transform %s: a program must run on the machine that the clean step was started on, but the environment's "+
				"`clean` uses a cluster; use an environment without one", n.name)
		}
	}
	if len(job.Secrets) > 0 {
		return fault.Errorf(fault.Invalid, "the step uses the secrets %s, which are not sent to the cluster in the environment's `clean`; "+
			"use an environment without one, or no secrets", strings.Join(slices.Sorted(maps.Keys(job.Secrets)), ", "))
	}
	return nil
}

// shareProgram links or copies this program to a path where the machines of a cluster can start it.
func shareProgram(to string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if os.Link(self, to) == nil {
		return nil
	}
	from, err := os.Open(self)
	if err != nil {
		return err
	}
	defer from.Close()
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o777)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}
