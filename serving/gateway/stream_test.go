package gateway

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/serving/access"
	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/oip/inference"
)

type inferStream = grpc.BidiStreamingClient[inference.ModelInferRequest, inference.ModelStreamInferResponse]

// openStream opens a stream that ends with the test.
func openStream(t *testing.T, ctx context.Context, client inference.GRPCInferenceServiceClient) inferStream { //nolint:revive // the context is that of the stream
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	t.Cleanup(cancel)
	stream, err := client.ModelStreamInfer(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

func send(t *testing.T, stream inferStream, requests ...*inference.ModelInferRequest) {
	t.Helper()
	for _, m := range requests {
		if err := stream.Send(m); err != nil && !errors.Is(err, io.EOF) { // Recv says why it has ended
			t.Fatal(err)
		}
	}
}

// numbered is a request with an ID.
func numbered(n int) *inference.ModelInferRequest {
	m := typed(float32(n))
	m.Id = strconv.Itoa(n)
	return m
}

// wants receives the answer to a request, which has an error if one is wanted.
func wants(t *testing.T, stream inferStream, id, version, says string) *inference.ModelStreamInferResponse {
	t.Helper()
	got, err := stream.Recv()
	if err != nil {
		t.Fatalf("request %s: %v", id, err)
	}
	answer := got.GetInferResponse()
	if answer.GetId() != id || answer.GetModelVersion() != version || !answer.GetParameters()["triton_final_response"].GetBoolParam() {
		t.Errorf("answer %v, want that to request %s by release %q", answer, id, version)
	}
	if says == "" && (got.GetErrorMessage() != "" || len(answer.GetOutputs()) != 1) || !strings.Contains(got.GetErrorMessage(), says) {
		t.Errorf("request %s: %v, want the error %q", id, got, says)
	}
	return got
}

// ends waits for the end of a stream.
func ends(t *testing.T, stream inferStream, code codes.Code, says string) {
	t.Helper()
	got, err := stream.Recv()
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if got != nil || status.Code(err) != code || err != nil && !strings.Contains(err.Error(), says) {
		t.Errorf("the stream ends with %v, %v, want %v with %q", got, err, code, says)
	}
}

func TestInferStream(t *testing.T) {
	b := newBench(t, 0)
	_, client := dial(t, b)
	stream := openStream(t, t.Context(), client)
	send(t, stream, numbered(1))
	wants(t, stream, "1", "", " of m ") // is being read, or serves nothing yet
	doc := b.route(t, nil, weightedBehaviour{"1", "echo", 1}, weightedBehaviour{"2", "fails", 0}, weightedBehaviour{"3", "echo", 0})
	b.untilServing(t, doc.Revision)
	b.until(t, func() bool { return b.State().Releases[1].State == Ready && b.State().Releases[2].State == Ready })

	// An error of a request is in its answer, and the stream goes on.
	other, misfit, named, many := numbered(3), raw("123"), numbered(5), numbered(6)
	other.ModelName, misfit.Id, named.ModelVersion = "other", "4", "2"
	named.Parameters = map[string]*inference.InferParameter{"triton_enable_empty_final_response": {ParameterChoice: &inference.InferParameter_BoolParam{BoolParam: true}}}
	for range oip.MaxTensors {
		many.Inputs = append(many.Inputs, &inference.ModelInferRequest_InferInputTensor{})
	}
	send(t, stream, numbered(2), other, misfit, named, many, numbered(7))
	wants(t, stream, "2", "1", "")
	wants(t, stream, "3", "", `there is no model "other"; the model is m`)
	wants(t, stream, "4", "", "are 4 bytes of binary data, not 3")
	wants(t, stream, "5", "2", "out of luck")
	wants(t, stream, "", "", "more than 1024 inputs")
	wants(t, stream, "7", "1", "")
	if c := b.Stats().At(doc.Revision).Versions["1"]; c.Requests != 2 || c.Failures != 0 {
		t.Errorf("counts %+v", c)
	}

	// The next request sees another split.
	doc = b.route(t, nil, weightedBehaviour{"1", "echo", 0}, weightedBehaviour{"2", "fails", 0}, weightedBehaviour{"3", "echo", 1})
	b.untilServing(t, doc.Revision)
	send(t, stream, numbered(8))
	wants(t, stream, "8", "3", "")
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	ends(t, stream, codes.OK, "")

	named = numbered(1)
	stream = openStream(t, metadata.AppendToOutgoingContext(t.Context(), VersionHeader, "1"), client)
	send(t, stream, named)
	wants(t, stream, "1", "1", "")
	stream = openStream(t, metadata.AppendToOutgoingContext(t.Context(), "triton_grpc_error", "true"), client)
	ends(t, stream, codes.Unimplemented, "leave the header triton_grpc_error out")
}

func TestInferStreamIsBounded(t *testing.T) {
	b := newBench(t, 0)
	conn, client := dial(t, b)
	doc := b.route(t, nil, weightedBehaviour{"1", "echo", 1})
	b.untilServing(t, doc.Revision)

	stream := openStream(t, t.Context(), client)
	for range cap(b.places) {
		b.places <- struct{}{}
	}
	send(t, stream, numbered(1))
	wants(t, stream, "1", "", "too many requests are in flight")
	for range cap(b.places) {
		<-b.places
	}
	left := b.bodies.left.Swap(3)
	send(t, stream, numbered(2))
	wants(t, stream, "", "", "the requests in flight have 128 MiB of data")
	b.bodies.left.Store(left)
	send(t, stream, numbered(3))
	wants(t, stream, "3", "1", "")
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	ends(t, stream, codes.OK, "")

	long := numbered(4)
	long.RawInputContents = [][]byte{make([]byte, maxBody)}
	stream = openStream(t, t.Context(), client)
	send(t, stream, long)
	ends(t, stream, codes.ResourceExhausted, "the request is larger than 16777216 bytes")
	for range cap(b.streams.places) {
		b.streams.places <- struct{}{}
	}
	ends(t, openStream(t, t.Context(), client), codes.ResourceExhausted, "too many streams are open")
	for range cap(b.streams.places) {
		<-b.streams.places
	}

	// What is no message is refused as a request is.
	anything, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true},
		inference.GRPCInferenceService_ModelStreamInfer_FullMethodName, grpc.ForceCodec(plainCodec{}))
	if err != nil {
		t.Fatal(err)
	}
	if err := anything.SendMsg("\xff"); err != nil {
		t.Fatal(err)
	}
	var got string
	if err := anything.RecvMsg(&got); err != nil || !strings.Contains(got, "the message is no ModelInferRequest") {
		t.Errorf("%q, %v", got, err)
	}
	if err := anything.CloseSend(); err != nil {
		t.Fatal(err)
	}
	b.until(t, func() bool {
		return b.bodies.left.Load() == maxBodies && len(b.streams.places) == 0 && len(b.places) == 0
	})
	b = newBench(t, 0)
	b.streams.pause = 100 * time.Millisecond
	_, client = dial(t, b)
	ends(t, openStream(t, t.Context(), client), codes.DeadlineExceeded, "the stream had no request for 100ms")
}

// plainCodec sends texts as they are.
type plainCodec struct{}

func (plainCodec) Marshal(v any) ([]byte, error) { return []byte(v.(string)), nil }

func (plainCodec) Unmarshal(data []byte, v any) error { *v.(*string) = string(data); return nil }

func (plainCodec) Name() string { return "proto" }

// TestInferStreamIsInOrder: so many requests of a stream are under way at once, and are answered in their order. One that leaves gives all back.
func TestInferStreamIsInOrder(t *testing.T) {
	b := newBench(t, 0)
	_, client := dial(t, b)
	doc := b.route(t, nil, weightedBehaviour{"1", "waits", 1}, weightedBehaviour{"2", "echo", 0})
	go func() { // of the warm-up
		for range warmUps {
			b.release <- struct{}{}
		}
	}()
	b.untilServing(t, doc.Revision)
	b.until(t, func() bool { return b.State().Releases[1].State == Ready })
	ctx, leave := context.WithCancel(t.Context())
	left, stream := openStream(t, ctx, client), openStream(t, t.Context(), client)
	send(t, left, numbered(1))
	b.until(t, func() bool { return len(b.places) == 1 })
	leave()
	b.until(t, func() bool { return len(b.places) == 0 })
	const all = maxOfStream + 4
	for n := range all {
		m := numbered(n)
		if n > 0 {
			m.ModelVersion = "2" // which answers at once
		}
		send(t, stream, m)
	}
	answered := func() uint64 {
		all, err := b.statistics("2")
		if err != nil {
			t.Fatal(err)
		}
		return all.GetModelStats()[0].GetInferenceStats().GetSuccess().GetCount()
	}
	b.until(t, func() bool { return answered() == maxOfStream-1 })
	time.Sleep(50 * time.Millisecond) // for those that are not to be read
	if n := answered(); n != maxOfStream-1 {
		t.Errorf("behind a request that waits, %d were read", n)
	}
	b.release <- struct{}{} // of the one that has left
	b.release <- struct{}{}
	for n := range all {
		version := "2"
		if n == 0 {
			version = "1"
		}
		wants(t, stream, strconv.Itoa(n), version, "")
	}
}

func TestInferStreamEndsWithTheGateway(t *testing.T) {
	b := newBench(t, 0)
	_, client := dial(t, b)
	doc := b.route(t, nil, weightedBehaviour{"1", "waits", 1})
	go func() {
		for range warmUps {
			b.release <- struct{}{}
		}
	}()
	b.untilServing(t, doc.Revision)
	stream, idle := openStream(t, t.Context(), client), openStream(t, t.Context(), client)
	send(t, stream, numbered(1), numbered(2))
	b.until(t, func() bool { return len(b.places) == 2 && len(b.streams.places) == 2 })
	b.streams.end()
	ends(t, idle, codes.Unavailable, "the gateway is closing; start another stream")
	close(b.release)
	wants(t, stream, "1", "1", "")
	wants(t, stream, "2", "1", "")
	ends(t, stream, codes.Unavailable, "the gateway is closing; start another stream")
}

// TestInferStreamAtTheDoor: a stream is for who may ask, and each of its requests has a line in the access log.
func TestInferStreamAtTheDoor(t *testing.T) {
	f := openFront(t, spec.TargetGateway{Keys: keyed("").Keys}, "shop.test")
	client, ctx := f.dial(t, metrics)
	ends(t, openStream(t, ctx, client), codes.PermissionDenied, "may not do this")
	client, ctx = f.dial(t, webKey)
	stream := openStream(t, ctx, client)
	other := numbered(2)
	other.ModelName = "other"
	send(t, stream, numbered(1), other)
	one, two := wants(t, stream, "1", "1", ""), wants(t, stream, "2", "", "there is no model")
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	ends(t, stream, codes.OK, "")

	size := func(all ...proto.Message) (n int64) {
		for _, m := range all {
			n += int64(messagePrefix + proto.Size(m))
		}
		return n
	}
	line := func(message int64, code codes.Code, in, out int64, release string) access.Entry {
		status := int(code)
		e := access.Entry{
			Target: "m", Method: "POST", Path: inference.GRPCInferenceService_ModelStreamInfer_FullMethodName, Status: 200, GRPC: &status, Message: message,
			In: in, Out: out, Key: "web", Release: release,
		}
		if release != "" {
			e.Model = f.Gateway.State().Releases[0].Model
		}
		return e
	}
	refused := line(0, codes.PermissionDenied, 0, 0, "")
	refused.Key = "prometheus"
	f.access.want(t, []access.Entry{
		refused,
		line(1, codes.OK, size(numbered(1)), size(one), "1"),
		line(2, codes.NotFound, size(other), size(two), ""),
		line(0, codes.OK, size(numbered(1), other), size(one, two), ""),
	})
}
