package gateway

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/oip/inference"
	"github.com/sluiceml/sluice/serving/routing"
)

// dial serves a bench's model over real connections and returns a client of gRPC's.
func dial(t *testing.T, b *bench) (*grpc.ClientConn, inference.GRPCInferenceServiceClient) {
	t.Helper()
	listener, err := listen(t.Context(), loopback, 0, "m", "port")
	if err != nil {
		t.Fatal(err)
	}
	d := open(listener, b, b.Gateway)
	t.Cleanup(func() {
		if err := d.close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn, inference.NewGRPCInferenceServiceClient(conn)
}

func typed(value float32) *inference.ModelInferRequest {
	return &inference.ModelInferRequest{ModelName: "m", Id: "7", Inputs: []*inference.ModelInferRequest_InferInputTensor{{
		Name: "x", Datatype: "FP32", Shape: []int64{1, 1}, Contents: &inference.InferTensorContents{Fp32Contents: []float32{value}},
	}}}
}

func raw(content string) *inference.ModelInferRequest {
	m := typed(0)
	m.Inputs[0].Contents, m.RawInputContents = nil, [][]byte{[]byte(content)}
	return m
}

func TestGRPC(t *testing.T) {
	b := newBench(t, 0)
	_, client := dial(t, b)
	ctx := t.Context()
	live, err := client.ServerLive(ctx, &inference.ServerLiveRequest{})
	if err != nil || !live.Live {
		t.Errorf("live: %v, %v", live, err)
	}
	if ready, err := client.ModelReady(ctx, &inference.ModelReadyRequest{Name: "m"}); err != nil || ready.Ready {
		t.Errorf("before any release the model is ready: %v, %v", ready, err)
	}
	doc := b.route(t, nil, weightedBehaviour{"1", "echo", 1}, weightedBehaviour{"2", "fails", 0})
	b.untilServing(t, doc.Revision)
	b.until(t, func() bool { return b.State().Releases[1].State == Ready })
	if ready, err := client.ServerReady(ctx, &inference.ServerReadyRequest{}); err != nil || !ready.Ready {
		t.Errorf("ready: %v, %v", ready, err)
	}
	if ready, err := client.ModelReady(ctx, &inference.ModelReadyRequest{Name: "m", Version: "2"}); err != nil || !ready.Ready {
		t.Errorf("the model is ready: %v, %v", ready, err)
	}
	if meta, err := client.ServerMetadata(ctx, &inference.ServerMetadataRequest{}); err != nil || meta.Name != "sluice" || meta.Extensions[0] != "binary_tensor_data" {
		t.Errorf("server: %v, %v", meta, err)
	}
	meta, err := client.ModelMetadata(ctx, &inference.ModelMetadataRequest{Name: "m"})
	if err != nil || meta.Platform != platform || len(meta.Versions) != 2 || meta.Inputs[0].Datatype != "FP32" || meta.Outputs[0].Name != "y" {
		t.Errorf("model: %v, %v", meta, err)
	}

	var header metadata.MD
	answer, err := client.ModelInfer(ctx, typed(0.75), grpc.Header(&header))
	if err != nil {
		t.Fatal(err)
	}
	if out := answer.Outputs[0]; answer.ModelVersion != "1" || answer.Id != "7" || out.Name != "y" || out.Contents.Fp32Contents[0] != 0.75 {
		t.Errorf("answered %v", answer)
	}
	if got := header.Get(ReleaseHeader); len(got) != 1 || got[0] != "1" {
		t.Errorf("%s is %v", ReleaseHeader, got)
	}
	answer, err = client.ModelInfer(ctx, raw("\x00\x00\x40\x3f"))
	if err != nil || string(answer.RawOutputContents[0]) != "\x00\x00\x40\x3f" || answer.Outputs[0].Contents != nil {
		t.Errorf("answered %v, %v", answer, err)
	}
	// Both were counted, as over REST; those that name a version are not.
	if c := b.Stats().At(doc.Revision).Versions["1"]; c.Requests != 2 || c.Failures != 0 {
		t.Errorf("counts %+v", c)
	}
	for name, ctx := range map[string]context.Context{
		"by metadata": metadata.AppendToOutgoingContext(ctx, VersionHeader, "2"),
		"by field":    ctx,
	} {
		m := typed(1)
		if name == "by field" {
			m.ModelVersion = "2"
		}
		if _, err := client.ModelInfer(ctx, m, grpc.Header(&header)); status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "out of luck") {
			t.Errorf("version 2 %s: %v", name, err)
		}
		if got := header.Get(ReleaseHeader); len(got) != 1 || got[0] != "2" {
			t.Errorf("version 2 %s: %s is %v", name, ReleaseHeader, got)
		}
	}
	if c := b.Stats().At(doc.Revision).Versions["2"]; c.Requests != 0 {
		t.Errorf("counts %+v", c)
	}
}

func TestErrorsOverGRPC(t *testing.T) {
	b := newBench(t, 50*time.Millisecond)
	b.opts.LabelKey = "key"
	conn, client := dial(t, b)
	call := func(name string) error {
		return conn.Invoke(t.Context(), "/inference.GRPCInferenceService/"+name, typed(1), &inference.ModelInferResponse{})
	}
	infer := func(m *inference.ModelInferRequest, opts ...grpc.CallOption) error {
		_, err := client.ModelInfer(t.Context(), m, opts...)
		return err
	}
	if err := infer(typed(1)); status.Code(err) != codes.Unavailable {
		t.Errorf("before any release: %v", err)
	}
	doc := b.route(t, nil, weightedBehaviour{"1", "echo", 1}, weightedBehaviour{"2", "hangs", 0})
	b.untilServing(t, doc.Revision)
	b.until(t, func() bool { return b.State().Releases[1].State == Ready })

	other, labelled, hangs, long := typed(1), typed(1), typed(1), typed(1)
	other.ModelName, hangs.ModelVersion = "..", "2"
	labelled.Parameters = map[string]*inference.InferParameter{"label": {ParameterChoice: &inference.InferParameter_Int64Param{Int64Param: 1}}}
	long.RawInputContents = [][]byte{make([]byte, maxBody)}
	unknown := typed(1)
	unknown.ModelVersion = "3"
	for _, tc := range []struct {
		name string
		err  error
		code codes.Code
		says string
	}{
		{"a request that does not fit", infer(raw("123")), codes.InvalidArgument, "1 elements of FP32 are 4 bytes of binary data, not 3"},
		{"another model", infer(other), codes.NotFound, `there is no model ".."; the model is m`},
		{"no such version", infer(unknown), codes.NotFound, "no version 3"},
		{"a label without the key", infer(labelled), codes.Unauthenticated, "label.key"},
		{"a model that takes too long", infer(hangs), codes.DeadlineExceeded, "the inference took longer than 50ms"},
		{"too large", infer(long), codes.ResourceExhausted, "the request is larger than 16777216 bytes"},
		{"compressed", infer(typed(1), grpc.UseCompressor(gzip.Name)), codes.Unimplemented, "compressed messages are not supported"},
		{"no such method", call("ModelTrain"), codes.Unimplemented, "ModelTrain"},
		{"shared memory", call("SystemSharedMemoryRegister"), codes.Unimplemented, "shared memory is not supported; send the tensors in the request"},
		{"a GPU's", call("CudaSharedMemoryStatus"), codes.Unimplemented, "shared memory is not supported; send the tensors in the request"},
		{"trace settings", call("TraceSetting"), codes.Unimplemented, "there are no trace settings"},
		{"log settings", call("LogSettings"), codes.Unimplemented, "there are no log settings"},
	} {
		if status.Code(tc.err) != tc.code || !strings.Contains(tc.err.Error(), tc.says) {
			t.Errorf("%s: %v, want %v with %q", tc.name, tc.err, tc.code, tc.says)
		}
	}

	for range cap(b.places) {
		b.places <- struct{}{}
	}
	var trailer metadata.MD
	if err := infer(typed(1), grpc.Trailer(&trailer)); status.Code(err) != codes.ResourceExhausted || strings.Join(trailer.Get(pushback), "") != "1000" {
		t.Errorf("a request too many: %v with %v", err, trailer)
	}
	for range cap(b.places) {
		<-b.places
	}
	left := b.bodies.left.Swap(3)
	if err := infer(typed(1), grpc.Trailer(&trailer)); status.Code(err) != codes.ResourceExhausted || strings.Join(trailer.Get(pushback), "") != "1000" {
		t.Errorf("bytes too many: %v with %v", err, trailer)
	}
	b.bodies.left.Store(left)
	if err := infer(typed(1)); err != nil {
		t.Error(err)
	}
	b.until(t, func() bool { return b.bodies.left.Load() == maxBodies })
}

func TestAPanicOverGRPCIsAnError(t *testing.T) {
	b := newBench(t, 0)
	_, err := b.recovered(t.Context(), nil, &grpc.UnaryServerInfo{}, func(context.Context, any) (any, error) { panic("out of bounds") })
	if status.Code(err) != codes.Internal {
		t.Errorf("%v", err)
	}
}

func TestBinaryDataOverREST(t *testing.T) {
	b := newBench(t, 0)
	doc := b.route(t, nil, weightedBehaviour{"1", "echo", 1})
	b.untilServing(t, doc.Revision)
	head := `{"id":"7","parameters":{"binary_data_output":true},"inputs":[{"name":"x","shape":[1,1],"datatype":"FP32","parameters":{"binary_data_size":4}}]}`
	const data = "\x00\x00\x40\x3f"
	w := b.do(http.MethodPost, inferPath, head+data, "Content-Type", "application/octet-stream", oip.JSONLengthHeader, strconv.Itoa(len(head)))
	answer, err := oip.ParseResponse(w.Body.Bytes(), w.Header())
	if err != nil || w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/octet-stream" || w.Header().Get(ReleaseHeader) != "1" {
		t.Fatalf("%d %v %q, %v", w.Code, w.Header(), w.Body, err)
	}
	if !strings.HasSuffix(w.Body.String(), "]}"+data) || answer.Outputs[0].Data.([]float32)[0] != 0.75 {
		t.Errorf("answered %q", w.Body)
	}
}

func TestRepository(t *testing.T) {
	b := newBench(t, 0)
	doc := b.route(t, nil, weightedBehaviour{"1", "echo", 1})
	b.untilServing(t, doc.Revision)
	b.route(t, nil, weightedBehaviour{"1", "echo", 1}, weightedBehaviour{"2", "unloadable", 0})
	b.until(t, func() bool { return len(b.State().Releases) == 2 && b.State().Releases[1].State == Failed })
	const one = `{"name":"m","version":"1","state":"READY","reason":""}`
	for _, tc := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"index", "", 200, `[` + one + `,{"name":"m","version":"2","state":"UNAVAILABLE","reason":"load release 2: no such model"}]`},
		{"index", `{"ready":true}`, 200, `[` + one + `]`},
		{"index", `{"ready":1}`, 400, `the body must be empty`},
		{"index", strings.Repeat(" ", 2<<10), 400, `the body must be empty`},
		{"models/m/load", `{"parameters":{}}`, 403, "are loaded and unloaded by rollouts"},
		{"models/m/unload", ``, 403, "are loaded and unloaded by rollouts"},
	} {
		if w := b.do(http.MethodPost, "/v2/repository/"+tc.path, tc.body); w.Code != tc.status || !strings.Contains(w.Body.String(), tc.want) {
			t.Errorf("%s %.20s: %d %s, want %d with %s", tc.path, tc.body, w.Code, w.Body, tc.status, tc.want)
		}
	}
	_, client := dial(t, b)
	for ready, want := range map[bool]string{
		false: `m 1 READY ""; m 2 UNAVAILABLE "load release 2: no such model"; `,
		true:  `m 1 READY ""; `,
	} {
		res, err := client.RepositoryIndex(t.Context(), &inference.RepositoryIndexRequest{Ready: ready})
		got := ""
		for _, m := range res.GetModels() {
			got += fmt.Sprintf("%s %s %s %q; ", m.GetName(), m.GetVersion(), m.GetState(), m.GetReason())
		}
		if err != nil || got != want {
			t.Errorf("over gRPC, ready %v: %s, %v, want %s", ready, got, err, want)
		}
	}
	_, loading := client.RepositoryModelLoad(t.Context(), &inference.RepositoryModelLoadRequest{ModelName: "m"})
	_, unloading := client.RepositoryModelUnload(t.Context(), &inference.RepositoryModelUnloadRequest{ModelName: "m"})
	for _, err := range []error{loading, unloading} {
		if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "are loaded and unloaded by rollouts") {
			t.Errorf("over gRPC: %v", err)
		}
	}
}

// The trace of a request reaches whatever answers it.
func TestTheTraceIsHandedOn(t *testing.T) {
	got := make(chan oip.Call, warmUps+1)
	ready := make(chan struct{})
	var b *bench
	b = openerBench(t, func(context.Context, routing.Release, func(string)) (Upstream, error) {
		<-ready
		return &calls{Upstream: b.echo(), got: got}, nil
	}, nil)
	close(ready)
	doc := b.route(t, nil, weightedBehaviour{"1", "", 1})
	b.untilServing(t, doc.Revision)
	if made := len(got); made != warmUps {
		t.Errorf("the release was ready after %d requests, want %d", made, warmUps)
	}
	for range warmUps {
		if call := <-got; call != (oip.Call{}) {
			t.Errorf("a warm-up has the call %+v", call)
		}
	}
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	if w := b.do(http.MethodPost, inferPath, request, "traceparent", parent, "tracestate", "vendor=1"); w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if call := <-got; call != (oip.Call{ID: "1", TraceParent: parent, TraceState: "vendor=1"}) {
		t.Errorf("the call is %+v", call)
	}
	_, client := dial(t, b)
	if _, err := client.ModelInfer(metadata.AppendToOutgoingContext(t.Context(), "traceparent", parent), typed(1)); err != nil {
		t.Fatal(err)
	}
	if call := <-got; call != (oip.Call{ID: "7", TraceParent: parent}) {
		t.Errorf("over gRPC the call is %+v", call)
	}
}

// calls is an upstream that tells the calls it gets.
type calls struct {
	Upstream
	got chan<- oip.Call
}

func (c *calls) Infer(ctx context.Context, inputs []oip.Tensor) ([]oip.Tensor, error) {
	c.got <- oip.CallFrom(ctx)
	return c.Upstream.Infer(ctx, inputs)
}

// A client over HTTP/1 that says it speaks gRPC is answered as any other.
func TestGRPCNeedsHTTP2(t *testing.T) {
	b := newBench(t, 0)
	r := httptest.NewRequest(http.MethodPost, inferPath, strings.NewReader(request))
	r.Header.Set("Content-Type", "application/grpc")
	w := httptest.NewRecorder()
	b.ServeHTTP(w, r)
	if w.Code != http.StatusUnsupportedMediaType {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestGRPCBounds(t *testing.T) {
	b := newBench(t, 0)
	_, client := dial(t, b)
	doc := b.route(t, nil, weightedBehaviour{"1", "echo", 1})
	b.untilServing(t, doc.Revision)
	m := typed(1)
	for range oip.MaxTensors {
		m.Inputs = append(m.Inputs, &inference.ModelInferRequest_InferInputTensor{})
	}
	_, err := client.ModelInfer(t.Context(), m)
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "more than 1024 inputs") {
		t.Errorf("too many inputs: %v", err)
	}
	m = typed(1)
	m.ModelName = strings.Repeat("m", 1<<20)
	if _, err := client.ModelInfer(t.Context(), m); status.Code(err) != codes.NotFound || len(err.Error()) > 3000 {
		t.Errorf("a long name: %.100v", err)
	}
}
