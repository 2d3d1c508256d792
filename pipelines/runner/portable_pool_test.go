package runner

import (
	"net"
	"testing"

	fnpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/fnexecution_v1"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Whoever does not know the job cannot have its process work for him; the job's runner can, by what the job's environment says.
func TestPoolWantsToken(t *testing.T) {
	p, err := openPool(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	runner, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = runner.Close() })
	text, err := p.payload()
	if err != nil {
		t.Fatal(err)
	}
	var environment pipepb.ExternalPayload
	if err := proto.Unmarshal(text, &environment); err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(environment.GetEndpoint().GetUrl(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	start := func(params map[string]string) error {
		_, err := fnpb.NewBeamFnExternalWorkerPoolClient(conn).StartWorker(t.Context(), &fnpb.StartWorkerRequest{
			WorkerId: "1", ProvisionEndpoint: &pipepb.ApiServiceDescriptor{Url: runner.Addr().String()}, Params: params,
		})
		return err
	}
	for _, params := range []map[string]string{nil, {tokenParam: ""}, {tokenParam: "x" + p.token}} {
		if err := start(params); status.Code(err) != codes.PermissionDenied {
			t.Errorf("with %v: got %v, want that permission is denied", params, err)
		}
	}
	if err := start(environment.GetParams()); err != nil {
		t.Fatal(err)
	}
	came, err := runner.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = came.Close()
}
