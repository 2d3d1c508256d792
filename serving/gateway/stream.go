package gateway

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sluiceml/sluice/serving/door"
	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/oip/inference"
)

const (
	maxStreams    = 256              // at once
	maxOfStream   = 16               // requests of a stream that are under way; the next one is read when the first is answered
	streamPause   = 10 * time.Minute // between two requests of a stream
	messagePrefix = 5                // bytes before a message of gRPC: whether it is compressed, and its length
)

// errEnding ends the streams of a gateway that is closed. What has arrived is answered first.
var errEnding = &oip.Error{Status: http.StatusServiceUnavailable, Message: "the gateway is closing; start another stream"}

// streams are the calls of ModelStreamInfer under way.
type streams struct {
	places chan struct{}
	pause  time.Duration
	ending context.Context //nolint:containedctx // it is that of all streams
	end    context.CancelFunc
}

func newStreams() streams {
	s := streams{places: make(chan struct{}, maxStreams), pause: streamPause}
	s.ending, s.end = context.WithCancel(context.Background())
	return s
}

// stream is one call of ModelStreamInfer. Its messages are read here: grpc's server, behind net/http's, reads them ahead without bound.
type stream struct {
	g       *Gateway
	w       http.ResponseWriter
	r       *http.Request
	http    *http.ResponseController
	under   chan struct{}          // requests under way
	answers chan chan streamAnswer // in the order of the requests
}

// streamRequest is a message of a stream as it has arrived.
type streamRequest struct {
	number  int64 // from 1
	arrived time.Time
	content []byte
	done    func() // gives its bytes back
	caller  door.Caller
	err     error // why it is not answered
}

// streamAnswer is a message as it is sent, and what the access log says of its request.
type streamAnswer struct {
	to     streamRequest
	frame  []byte
	status codes.Code
	note   *note
}

// serveStream answers each message of a stream as ModelInfer would, with one message. A request that fails does not end the stream.
func (g *Gateway) serveStream(w http.ResponseWriter, r *http.Request) {
	select {
	case g.streams.places <- struct{}{}:
		defer func() { <-g.streams.places }()
	default:
		refuseGRPC(w, busy("too many streams are open"))
		return
	}
	if r.Header.Get("Triton_grpc_error") == "true" {
		refuseGRPC(w, &oip.Error{
			Status: http.StatusNotImplemented, Message: "a request that fails does not end its stream here; leave the header triton_grpc_error out",
		})
		return
	}
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Trailer", "Grpc-Status, Grpc-Message")
	s := &stream{
		g: g, w: w, r: r, http: http.NewResponseController(w), under: make(chan struct{}, maxOfStream), answers: make(chan chan streamAnswer, maxOfStream),
	}
	takenBy(w, time.Time{}) // HTTP/2 resets a stream whose deadline has passed, even if there is nothing to write
	defer context.AfterFunc(g.streams.ending, func() { _ = s.http.SetReadDeadline(time.Now()) })()
	var writing sync.WaitGroup
	writing.Go(s.write)
	end := status.New(codes.OK, "")
	if err := s.read(); err != nil {
		end = asStatus(err)
	}
	close(s.answers)
	writing.Wait()
	takenBy(w, time.Now().Add(answerTime))
	setStatus(w.Header(), end)
}

// read has the requests answered as they arrive, until there are no more. An error says why the stream ends before.
func (s *stream) read() error {
	for n := int64(1); ; n++ {
		s.under <- struct{}{}
		request, err := s.next(n)
		if err == nil {
			// As each request of its own would be: the key may have been removed since the last one.
			request.caller, err = s.g.opts.Door.Admit(s.r, door.Infer, s.g.opts.LabelKey)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			request.done()
			return err
		}
		answer := make(chan streamAnswer, 1)
		s.answers <- answer
		go func() { answer <- s.answer(request) }()
	}
}

// next reads a message; io.EOF after the last one.
func (s *stream) next(number int64) (streamRequest, error) {
	m := streamRequest{number: number, done: func() {}}
	var prefix [messagePrefix]byte
	if err := s.within(s.g.streams.pause); err != nil {
		return m, err
	}
	if _, err := io.ReadFull(s.r.Body, prefix[:]); err != nil {
		return m, s.ended(err, fmt.Sprintf("the stream had no request for %v; start another one", s.g.streams.pause))
	}
	size := int64(binary.BigEndian.Uint32(prefix[1:]))
	switch {
	case prefix[0] != 0:
		return m, errCompressed
	case size > maxBody:
		return m, oip.TooLarge(maxBody)
	}
	if err := s.within(s.g.bodies.timeout); err != nil {
		return m, err
	}
	m.arrived = time.Now()
	counted := &countedBody{ReadCloser: s.r.Body, of: s.g.bodies}
	m.done = sync.OnceFunc(counted.giveBack)
	var content bytes.Buffer
	n, err := content.ReadFrom(io.LimitReader(counted, size))
	if _, full := errors.AsType[*oip.Error](err); full {
		// The bytes of all requests are too many. What is left of this one is in the way of the next.
		m.err = err
		n, err = io.Copy(io.Discard, io.LimitReader(s.r.Body, size-counted.taken))
		n += counted.taken
	}
	if err == nil && n < size {
		err = io.ErrUnexpectedEOF
	}
	m.content = content.Bytes()
	if err != nil {
		return m, s.ended(err, "the request did not arrive in time")
	}
	_ = s.http.SetReadDeadline(time.Time{}) // a stream whose deadline has passed cannot be read any more, and answers may take longer
	return m, nil
}

// within bounds the time until what is read next has arrived, unless the gateway is closing.
func (s *stream) within(d time.Duration) error {
	_ = s.http.SetReadDeadline(time.Now().Add(d)) // as in bodies.read
	if s.g.streams.ending.Err() != nil {
		return errEnding
	}
	return nil
}

// ended is why nothing more can be read.
func (s *stream) ended(err error, late string) error {
	switch {
	case errors.Is(err, io.EOF):
		return err
	case s.g.streams.ending.Err() != nil:
		return errEnding
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &oip.Error{Status: http.StatusRequestTimeout, Message: late}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return oip.Invalid("the stream ends within a message")
	}
	return errLeft
}

// answer makes the answer to a request, whatever comes of it.
func (s *stream) answer(to streamRequest) (a streamAnswer) {
	defer to.done()
	a = streamAnswer{to: to, note: &note{}}
	a.note.caller(to.caller)
	ctx := door.WithCaller(context.WithValue(s.r.Context(), noteKey{}, a.note), to.caller)
	ctx = context.WithValue(ctx, arrivedKey{}, arrived{header: s.r.Header, done: to.done})
	m := &inference.ModelInferRequest{}
	made, release, err := s.infer(ctx, m, to)
	answer := &inference.ModelStreamInferResponse{InferResponse: made}
	if err == nil {
		setFinal(made)
		a.frame, err = frame(answer)
	}
	if err != nil {
		a.status = code(oip.ErrorStatus(err))
		failed := &inference.ModelInferResponse{Id: m.GetId(), ModelName: m.GetModelName(), ModelVersion: release}
		setFinal(failed)
		answer = &inference.ModelStreamInferResponse{ErrorMessage: strings.ToValidUTF8(oip.Shorten(err.Error()), "?"), InferResponse: failed}
		a.frame, _ = frame(answer) // all its texts are valid
	}
	return a
}

// infer decodes a request into m and makes its inference. A panic is an error: it would end the process.
func (s *stream) infer(ctx context.Context, m *inference.ModelInferRequest, to streamRequest) (made *inference.ModelInferResponse, release string, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.g.log.Error("a request could not be answered", "method", s.r.URL.Path, "panic", p, "stack", string(debug.Stack()))
			err = errors.New("the gateway failed")
		}
	}()
	if to.err != nil {
		return nil, "", to.err
	}
	if err := inference.Bounded(to.content); err != nil {
		return nil, "", err
	}
	if err := proto.Unmarshal(to.content, m); err != nil {
		return nil, "", oip.Invalid("the message is no ModelInferRequest: %v", err)
	}
	return service{g: s.g}.infer(ctx, m)
}

// setFinal says that no other answer to the request follows.
func setFinal(m *inference.ModelInferResponse) {
	m.Parameters = map[string]*inference.InferParameter{"triton_final_response": {ParameterChoice: &inference.InferParameter_BoolParam{BoolParam: true}}}
}

// frame is a message as it is sent.
func frame(m proto.Message) ([]byte, error) {
	out, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, messagePrefix, messagePrefix+proto.Size(m)), m)
	if err != nil {
		return nil, err
	}
	binary.BigEndian.PutUint32(out[1:messagePrefix], uint32(len(out)-messagePrefix))
	return out, nil
}

// write sends the answers in the order of their requests. When one could not be sent, the others are only waited for.
func (s *stream) write() {
	failed := false
	for next := range s.answers {
		a := <-next
		if !failed {
			takenBy(s.w, time.Now().Add(answerTime))
			_, err := s.w.Write(a.frame)
			failed = errors.Join(err, s.http.Flush()) != nil
			takenBy(s.w, time.Time{})
		}
		s.g.logMessage(s.r, a, failed || s.r.Context().Err() != nil)
		<-s.under
	}
}
