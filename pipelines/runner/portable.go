package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/graphx"
	jobpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/jobmanagement_v1"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/universal/runnerlib"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/util/grpcx"
)

// Job says where a graph runs, and with which workers.
type Job struct {
	// Endpoint is the address of the job service, host:port.
	Endpoint string
	// Name is the beginning of the job's name on the cluster: lower-case letters and digits.
	Name string
	// Cancel cancels the job on the cluster and returns when it has ended, for job services that do not do that themselves. May be nil.
	Cancel func(context.Context) error
	// Parallelism is how many bundles of a stage are processed at a time. 0 leaves it to the cluster.
	Parallelism int
	// Worker is the program that the cluster's machines start as a worker, with Env added to its environment; its main must call Work. Both
	// become part of the job's graph, which the cluster displays, so they must not contain secrets. Empty: workers run in this process, and
	// the runner must reach it on the loopback interface.
	Worker string
	Env    map[string]string
}

// ErrGone is the error for a job service that has stopped answering.
var ErrGone = errors.New("the job service has exited")

// dialTimeout bounds how long to wait for the first connection to a job service.
const dialTimeout = 30 * time.Second

// CancelTimeout bounds how long RunJob takes to return after its context has ended.
const CancelTimeout = 15 * time.Second

// RunJob runs a graph. When ctx ends, RunJob cancels the job on the cluster, and returns when the job has ended there or after CancelTimeout.
func RunJob(ctx context.Context, graph *beam.Pipeline, job Job) error {
	environment, stop, err := job.environment(context.WithoutCancel(ctx)) // a job whose workers disappear would fail before it is canceled
	if err != nil {
		return err
	}
	defer stop()
	edges, _, err := graph.Build()
	if err != nil {
		return err
	}
	pipeline, err := graphx.Marshal(edges, &graphx.Options{Environment: environment})
	if err != nil {
		return fmt.Errorf("encode the Beam graph: %w", err)
	}
	conn, err := grpcx.Dial(ctx, job.Endpoint, dialTimeout)
	if err != nil {
		return fmt.Errorf("no job service answers at %s: %w", job.Endpoint, err)
	}
	defer conn.Close() //nolint:errcheck // nothing is lost with it
	client := jobpb.NewJobServiceClient(conn)
	id, err := job.submit(ctx, client, pipeline)
	if err != nil {
		return err
	}
	return job.wait(ctx, client, id)
}

// environment returns the Beam environment, which tells the runner how to start workers.
func (j Job) environment(ctx context.Context) (env *pipepb.Environment, stop func(), err error) {
	if j.Worker != "" {
		config, err := processConfig(j.Worker, j.Env)
		if err != nil {
			return nil, nil, err
		}
		env, err = graphx.CreateEnvironment(ctx, graphx.URNEnvProcess, func(context.Context) string { return config })
		return env, func() {}, err
	}
	workers, err := openPool(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("listen on the loopback interface: %w", err)
	}
	env, err = graphx.CreateEnvironment(ctx, graphx.URNEnvExternal, func(context.Context) string { return workers.address })
	if err == nil {
		env.Payload, err = workers.payload()
	}
	if err != nil {
		workers.close()
		return nil, nil, err
	}
	return env, workers.close, nil
}

// submit submits the job and returns its id. Workers need no artifacts, but the API requires one, so it stages an empty file.
func (j Job) submit(ctx context.Context, client jobpb.JobServiceClient, pipeline *pipepb.Pipeline) (string, error) {
	empty, err := os.CreateTemp("", "worker-*")
	if err != nil {
		return "", err
	}
	defer os.Remove(empty.Name())
	if err := empty.Close(); err != nil {
		return "", err
	}
	if err := runnerlib.UpdateGoEnvironmentWorker(empty.Name(), pipeline); err != nil {
		return "", err
	}
	options := &runnerlib.JobOptions{Name: j.Name, Parallelism: j.Parallelism, Loopback: j.Worker == ""}
	prepared, artifacts, session, err := runnerlib.Prepare(ctx, client, pipeline, options)
	if err != nil {
		return "", fmt.Errorf("the job service does not accept the job: %w", err)
	}
	token, err := runnerlib.Stage(ctx, prepared, artifacts, empty.Name(), session)
	if err != nil {
		return "", fmt.Errorf("send files to the job service: %w", err)
	}
	id, err := runnerlib.Submit(ctx, client, prepared, token)
	if err != nil {
		return "", fmt.Errorf("the job service does not start the job: %w", err)
	}
	return id, nil
}

// wait waits for the job to end; the error is nil only if the job has completed. When ctx ends, it cancels the job and returns the cause.
func (j Job) wait(ctx context.Context, client jobpb.JobServiceClient, id string) error {
	follow, done := context.WithCancel(context.WithoutCancel(ctx))
	defer done()
	var err error
	end := make(chan struct{})
	go func() { defer close(end); err = followJob(follow, client, id) }()
	select {
	case <-end:
		return err
	case <-ctx.Done():
	}
	bounded, stop := context.WithTimeout(follow, CancelTimeout)
	defer stop()
	if j.Cancel != nil {
		if err := j.Cancel(bounded); err != nil {
			return fmt.Errorf("%w; the job could not be canceled on the cluster: %w", context.Cause(ctx), err)
		}
	}
	if _, err := client.Cancel(bounded, &jobpb.CancelJobRequest{JobId: id}); err == nil {
		select {
		case <-end:
		case <-bounded.Done():
		}
	}
	return context.Cause(ctx)
}

// maxMessages bounds how much of the runner's messages goes into an error.
const maxMessages = 8 << 10

// followJob reads the job's states and messages until it ends.
func followJob(ctx context.Context, client jobpb.JobServiceClient, id string) error {
	stream, err := client.GetMessageStream(ctx, &jobpb.JobMessagesRequest{JobId: id})
	if err != nil {
		return fmt.Errorf("get the state of the job from the job service: %w", err)
	}
	var said strings.Builder
	var state jobpb.JobState_Enum
	for {
		m, err := stream.Recv()
		if err != nil { // including io.EOF: the stream ends after the job
			return ended(state, said.String(), err)
		}
		if s := m.GetStateResponse(); s != nil {
			if state = s.GetState(); state == jobpb.JobState_DONE || state == jobpb.JobState_CANCELLED {
				return ended(state, said.String(), nil)
			}
		}
		if r := m.GetMessageResponse(); r.GetImportance() >= jobpb.JobMessage_JOB_MESSAGE_ERROR && said.Len() < maxMessages {
			said.WriteString(r.GetMessageText() + "\n")
		}
	}
}

// ended returns the error of a job whose last known state is given.
func ended(state jobpb.JobState_Enum, said string, err error) error {
	said = strings.TrimSpace(said)
	switch state { //nolint:exhaustive // a job in any other state goes on
	case jobpb.JobState_DONE:
		return nil
	case jobpb.JobState_CANCELLED:
		return errors.New("the job was canceled on the cluster")
	case jobpb.JobState_FAILED:
		return fmt.Errorf("the job failed on the cluster: %s", said)
	}
	return fmt.Errorf("%w while the job ran: %w", ErrGone, err)
}
