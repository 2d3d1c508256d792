package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/oip/inference"
)

// pushback tells gRPC's clients after how many milliseconds to ask again, as Retry-After tells HTTP's.
const pushback = "grpc-retry-pushback-ms"

// service is the protocol over gRPC. What it answers comes from the same code as over REST.
type service struct {
	inference.UnimplementedGRPCInferenceServiceServer
	g *Gateway
}

// newGRPC makes the server of the service. It listens nowhere: requests come from net/http's server, by serveGRPC.
func newGRPC(g *Gateway) *grpc.Server {
	s := grpc.NewServer(grpc.MaxRecvMsgSize(maxBody), grpc.WaitForHandlers(true), grpc.UnaryInterceptor(g.recovered))
	inference.RegisterGRPCInferenceServiceServer(s, service{g: g})
	return s
}

// recovered turns a panic into an error, as net/http does: grpc would end the process.
func (g *Gateway) recovered(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (answer any, err error) {
	defer func() {
		if p := recover(); p != nil {
			g.log.Error("a request could not be answered", "method", info.FullMethod, "panic", p, "stack", string(debug.Stack()))
			answer, err = nil, status.Error(codes.Internal, "the gateway failed")
		}
	}()
	return handle(ctx, req)
}

// overGRPC answers requests of gRPC, which are told by their type, and leaves others to next.
func (g *Gateway) overGRPC(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isGRPC(r) {
			g.serveGRPC(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func isGRPC(r *http.Request) bool {
	return r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}

// arrived is what of a request is not in its message.
type arrived struct {
	header http.Header
	done   func() // gives its bytes back
}

type arrivedKey struct{}

var servicePath = "/" + inference.GRPCInferenceService_ServiceDesc.ServiceName + "/"

// methods are those that have one message, which is read.
var methods = func() map[string]bool {
	known := map[string]bool{}
	for _, m := range inference.GRPCInferenceService_ServiceDesc.Methods {
		known[servicePath+m.MethodName] = true
	}
	return known
}()

// serveGRPC reads a request whole before grpc sees it, within the bounds of all requests: a client that is slow to send holds up nobody.
func (g *Gateway) serveGRPC(w http.ResponseWriter, r *http.Request) {
	if encoding := r.Header.Get("Grpc-Encoding"); encoding != "" && encoding != "identity" {
		w.Header().Set("Grpc-Accept-Encoding", "identity")
		refuseGRPC(w, errCompressed)
		return
	}
	if r.URL.Path == inference.GRPCInferenceService_ModelStreamInfer_FullMethodName {
		g.serveStream(w, r)
		return
	}
	if !methods[r.URL.Path] {
		if err := lack(strings.TrimPrefix(r.URL.Path, servicePath)); err != nil {
			refuseGRPC(w, err)
			return
		}
		r.Body = http.NoBody
		g.grpc.ServeHTTP(w, r) // which says so
		return
	}
	body, done, err := g.bodies.read(w, r)
	defer done()
	if err != nil {
		refuseGRPC(w, err)
		return
	}
	if err := bounded(r.URL.Path, body); err != nil {
		refuseGRPC(w, err)
		return
	}
	takenBy(w, time.Now().Add(g.opts.Timeout+answerTime))
	r = r.WithContext(context.WithValue(r.Context(), arrivedKey{}, arrived{header: r.Header, done: done}))
	r.Body = io.NopCloser(bytes.NewReader(body))
	g.grpc.ServeHTTP(w, r)
}

// bounded refuses an inference that would take many times its bytes when grpc decodes it.
func bounded(path string, body []byte) error {
	if path != inference.GRPCInferenceService_ModelInfer_FullMethodName || len(body) < messagePrefix {
		return nil
	}
	return inference.Bounded(body[messagePrefix:])
}

var errCompressed = &oip.Error{Status: http.StatusNotImplemented, Message: "compressed messages are not supported; send them as they are"}

// refuseGRPC answers with an error and no message.
func refuseGRPC(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/grpc")
	if e, ok := errors.AsType[*oip.Error](err); ok && e.RetryAfter > 0 {
		w.Header().Set(pushback, milliseconds(e.RetryAfter))
	}
	setStatus(w.Header(), asStatus(err))
	w.WriteHeader(http.StatusOK)
}

func setStatus(h http.Header, s *status.Status) {
	h.Set("Grpc-Status", strconv.Itoa(int(s.Code())))
	if s.Message() != "" {
		h.Set("Grpc-Message", url.PathEscape(s.Message()))
	}
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// asStatus is an error as gRPC says it.
func asStatus(err error) *status.Status {
	return status.New(code(oip.ErrorStatus(err)), oip.Shorten(err.Error()))
}

// code is what gRPC calls a status of HTTP.
func code(httpStatus int) codes.Code {
	switch httpStatus {
	case http.StatusBadRequest, http.StatusUnsupportedMediaType:
		return codes.InvalidArgument
	case http.StatusUnauthorized:
		return codes.Unauthenticated
	case http.StatusForbidden:
		return codes.PermissionDenied
	case http.StatusNotFound:
		return codes.NotFound
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return codes.DeadlineExceeded
	case http.StatusRequestEntityTooLarge, http.StatusTooManyRequests:
		return codes.ResourceExhausted
	case statusLeft:
		return codes.Canceled
	case http.StatusUnprocessableEntity:
		return codes.FailedPrecondition
	case http.StatusNotImplemented:
		return codes.Unimplemented
	case http.StatusBadGateway, http.StatusServiceUnavailable:
		return codes.Unavailable
	}
	return codes.Internal
}

// refused is an error for grpc to answer with. Its trailer says when to ask again.
func refused(ctx context.Context, err error) error {
	if e, ok := errors.AsType[*oip.Error](err); ok && e.RetryAfter > 0 {
		_ = grpc.SetTrailer(ctx, metadata.Pairs(pushback, milliseconds(e.RetryAfter))) // fails only outside of a call
	}
	return asStatus(err).Err()
}

// ServerLive implements inference.GRPCInferenceServiceServer.
func (s service) ServerLive(context.Context, *inference.ServerLiveRequest) (*inference.ServerLiveResponse, error) {
	return &inference.ServerLiveResponse{Live: true}, nil
}

// ServerReady implements inference.GRPCInferenceServiceServer.
func (s service) ServerReady(context.Context, *inference.ServerReadyRequest) (*inference.ServerReadyResponse, error) {
	return &inference.ServerReadyResponse{Ready: s.g.ready()}, nil
}

// ServerMetadata implements inference.GRPCInferenceServiceServer.
func (s service) ServerMetadata(context.Context, *inference.ServerMetadataRequest) (*inference.ServerMetadataResponse, error) {
	return &inference.ServerMetadataResponse{Name: serverMetadata.Name, Version: serverMetadata.Version, Extensions: serverMetadata.Extensions}, nil
}

// ModelReady implements inference.GRPCInferenceServiceServer.
func (s service) ModelReady(ctx context.Context, m *inference.ModelReadyRequest) (*inference.ModelReadyResponse, error) {
	if err := s.named(m.GetName()); err != nil {
		return nil, refused(ctx, err)
	}
	return &inference.ModelReadyResponse{Ready: s.g.modelIsReady(m.GetVersion())}, nil
}

// ModelMetadata implements inference.GRPCInferenceServiceServer.
func (s service) ModelMetadata(ctx context.Context, m *inference.ModelMetadataRequest) (*inference.ModelMetadataResponse, error) {
	if err := s.named(m.GetName()); err != nil {
		return nil, refused(ctx, err)
	}
	meta, err := s.g.metadata(m.GetVersion())
	if err != nil {
		return nil, refused(ctx, err)
	}
	return &inference.ModelMetadataResponse{
		Name: meta.Name, Versions: meta.Versions, Platform: meta.Platform, Inputs: described(meta.Inputs), Outputs: described(meta.Outputs),
	}, nil
}

func described(tensors []oip.TensorMetadata) []*inference.ModelMetadataResponse_TensorMetadata {
	out := make([]*inference.ModelMetadataResponse_TensorMetadata, len(tensors))
	for i, t := range tensors {
		out[i] = &inference.ModelMetadataResponse_TensorMetadata{Name: t.Name, Datatype: string(t.Datatype), Shape: t.Shape}
	}
	return out
}

// ModelInfer implements inference.GRPCInferenceServiceServer.
func (s service) ModelInfer(ctx context.Context, m *inference.ModelInferRequest) (*inference.ModelInferResponse, error) {
	answer, release, err := s.infer(ctx, m)
	if release != "" {
		_ = grpc.SetHeader(ctx, metadata.Pairs(ReleaseHeader, release)) // as above
	}
	if err != nil {
		return nil, refused(ctx, err)
	}
	return answer, nil
}

// infer makes an inference. Its place and the bytes of the request are given back before the answer is sent.
func (s service) infer(ctx context.Context, m *inference.ModelInferRequest) (answer *inference.ModelInferResponse, release string, err error) {
	request, _ := ctx.Value(arrivedKey{}).(arrived)
	defer request.done()
	leave, err := s.g.enter(ctx)
	if err != nil {
		return nil, "", err
	}
	defer leave()
	if err := s.named(m.GetModelName()); err != nil {
		return nil, "", err
	}
	req, err := inference.Decode(m)
	if err != nil {
		return nil, "", err
	}
	made, release, err := s.g.answer(ctx, m.GetModelVersion(), request.header, req)
	if err != nil {
		return nil, release, err
	}
	answer, err = inference.Encode(made, m)
	return answer, release, err
}

// named refuses models that the gateway does not have.
func (s service) named(model string) error {
	if model == s.g.opts.Target {
		return nil
	}
	return &oip.Error{Status: http.StatusNotFound, Message: fmt.Sprintf("there is no model %q; the model is %s", model, s.g.opts.Target)}
}
