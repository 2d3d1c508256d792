package runner

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net"
	"os"
	"sync"

	fnpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/fnexecution_v1"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// tokenParam is the parameter of a worker's environment that holds the pool's token. Runners pass parameters on unchanged.
const tokenParam = "sluice-token"

// pool starts workers in this process for runners on this machine. A worker runs whatever its runner sends, with this user's files and
// programs, so the pool serves only the runner that was given the job: the job's graph contains the token. Beam's own implementation
// accepts requests from any user of the machine.
type pool struct {
	fnpb.UnimplementedBeamFnExternalWorkerPoolServer
	address string
	token   string
	server  *grpc.Server
	ctx     context.Context // context of the workers
	stop    context.CancelFunc
	workers sync.WaitGroup
}

// openPool starts a pool that listens on the loopback interface until close is called.
func openPool(ctx context.Context) (*pool, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "localhost:0")
	if err != nil {
		return nil, err
	}
	p := &pool{address: listener.Addr().String(), token: rand.Text(), server: grpc.NewServer()}
	p.ctx, p.stop = context.WithCancel(ctx)
	fnpb.RegisterBeamFnExternalWorkerPoolServer(p.server, p)
	go p.server.Serve(listener) //nolint:errcheck // it ends by close, and a runner that cannot reach it says so
	return p, nil
}

// close stops the pool and its workers.
func (p *pool) close() {
	p.stop()
	p.server.Stop()
	p.workers.Wait()
}

// payload returns the payload of the job's environment, which describes the pool.
func (p *pool) payload() ([]byte, error) {
	return proto.Marshal(&pipepb.ExternalPayload{
		Endpoint: &pipepb.ApiServiceDescriptor{Url: p.address}, Params: map[string]string{tokenParam: p.token},
	})
}

// StartWorker starts a worker if the request has the token.
func (p *pool) StartWorker(_ context.Context, r *fnpb.StartWorkerRequest) (*fnpb.StartWorkerResponse, error) {
	if subtle.ConstantTimeCompare([]byte(r.GetParams()[tokenParam]), []byte(p.token)) != 1 {
		return nil, status.Error(codes.PermissionDenied, "only the runner of the job may start a worker")
	}
	p.workers.Go(func() {
		if err := work(p.ctx, r.GetWorkerId(), r.GetProvisionEndpoint().GetUrl()); err != nil && p.ctx.Err() == nil {
			fmt.Fprintf(os.Stderr, "worker %s: %v\n", r.GetWorkerId(), err)
		}
	})
	return &fnpb.StartWorkerResponse{}, nil
}

// StopWorker does nothing: the request cannot carry the token, and a worker ends when its runner closes the connection.
func (p *pool) StopWorker(context.Context, *fnpb.StopWorkerRequest) (*fnpb.StopWorkerResponse, error) {
	return &fnpb.StopWorkerResponse{}, nil
}
