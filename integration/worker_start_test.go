package integration

import (
	"context"
	"net"
	"testing"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
)

// noDatabase answers as a frontend whose database is away.
type noDatabase struct {
	workflowservice.UnimplementedWorkflowServiceServer
}

func (noDatabase) GetSystemInfo(context.Context, *workflowservice.GetSystemInfoRequest) (*workflowservice.GetSystemInfoResponse, error) {
	return &workflowservice.GetSystemInfoResponse{}, nil
}

func (noDatabase) RegisterNamespace(context.Context, *workflowservice.RegisterNamespaceRequest) (*workflowservice.RegisterNamespaceResponse, error) {
	return nil, serviceerror.ToStatus(serviceerror.NewUnavailable("there is no connection to the database")).Err()
}

// TestWorkerWaitsForTheCluster: a worker that starts while the server is away, and then its database, works as soon as both are back.
func TestWorkerWaitsForTheCluster(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, "program")
	r := s.serve()
	r.kill()
	c := s.start("worker", "--create-namespace")
	c.awaits("connection refused")
	listener, err := net.Listen("tcp", r.info.TemporalAddress)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	workflowservice.RegisterWorkflowServiceServer(server, noDatabase{})
	go server.Serve(listener)
	defer server.Stop()
	c.awaits("create namespace default: there is no connection to the database; retrying")
	server.Stop()
	r.start()
	c.awaits("Ctrl-C stops")
}
