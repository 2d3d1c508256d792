package gateway

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// serveBench serves the model of a bench over real connections; the bench has one release, which behaves so.
func serveBench(t *testing.T, b *bench, behaviour string) *httptest.Server {
	t.Helper()
	doc := b.route(t, nil, weightedBehaviour{"1", behaviour, 1})
	b.untilServing(t, doc.Revision)
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	return server
}

// reply is what came back of a request.
type reply struct {
	status int
	header http.Header
	body   string
}

// post sends a whole request over a connection of its own.
func post(t *testing.T, server *httptest.Server, body string) reply {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Post(server.URL+inferPath, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return read(t, resp)
}

func read(t *testing.T, resp *http.Response) reply {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return reply{status: resp.StatusCode, header: resp.Header, body: string(body)}
}

// dribble is a client that has sent the head of a request and a part of its body, and was told that the rest is waited for.
func dribble(t *testing.T, server *httptest.Server, length int, part string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: m\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n",
		inferPath, length); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	if line, err := in.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("a client that is slow to send was told %q, %v", line, err)
	}
	if _, err := in.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, part); err != nil {
		t.Fatal(err)
	}
	return conn, in
}

func TestClientsThatAreSlowToSendHoldUpNobody(t *testing.T) {
	b := newBench(t, 0)
	server := serveBench(t, b, "echo")
	for range maxInFlight + 44 {
		dribble(t, server, len(request), request[:10])
	}
	if got := post(t, server, request); got.status != http.StatusOK {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestARequestThatDoesNotArriveInTimeIsEnded(t *testing.T) {
	b := newBench(t, 0)
	if b.bodies.timeout != time.Minute {
		t.Errorf("a request has %v to arrive, want a minute", b.bodies.timeout)
	}
	b.bodies.timeout = 50 * time.Millisecond
	server := serveBench(t, b, "echo")
	_, in := dribble(t, server, len(request), request[:10])
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestTimeout {
		t.Errorf("%d, want 408", resp.StatusCode)
	}
}

func TestAModelMayTakeLongerThanARequestMayArrive(t *testing.T) {
	b := newBench(t, 0)
	b.bodies.timeout = 50 * time.Millisecond
	doc := b.route(t, nil, weightedBehaviour{"1", "waits", 1})
	b.until(t, func() bool { return b.opened() == 1 })
	for range warmUps {
		b.release <- struct{}{}
	}
	b.untilServing(t, doc.Revision)
	server := httptest.NewServer(b)
	defer server.Close()
	conn, in := dribble(t, server, len(request), request)
	time.AfterFunc(4*b.bodies.timeout, func() { close(b.release) })
	for range 2 { // the connection goes on
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if got := read(t, resp); got.status != http.StatusOK {
			t.Errorf("%d %s", got.status, got.body)
		}
		if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: m\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			inferPath, len(request), request); err != nil {
			t.Fatal(err)
		}
	}
}

// The bodies of all requests have so many bytes together; who has gone away has none.
func TestTheBytesOfBodiesAreBounded(t *testing.T) {
	b := newBench(t, 0)
	server := serveBench(t, b, "echo")
	if got := b.bodies.left.Load(); got != 128<<20 {
		t.Errorf("all requests have room for %d bytes, want 128 MiB", got)
	}
	for size, want := range map[int]int{16 << 20: http.StatusOK, 16<<20 + 1: http.StatusRequestEntityTooLarge} {
		if w := b.do(http.MethodPost, inferPath, request+strings.Repeat(" ", size-len(request))); w.Code != want {
			t.Errorf("a request of %d bytes: %d, want %d", size, w.Code, want)
		}
	}
	room := int64(len(request) + 10)
	b.bodies.left.Store(room)
	conn, _ := dribble(t, server, 1000, strings.Repeat(" ", 20))
	b.until(t, func() bool { return b.bodies.left.Load() == room-20 })
	if got := post(t, server, request); got.status != http.StatusTooManyRequests || got.header.Get("Retry-After") != "1" {
		t.Errorf("%d with %v, want 429 with Retry-After", got.status, got.header)
	}
	b.until(t, func() bool { return b.bodies.left.Load() == room-20 })
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	b.until(t, func() bool { return b.bodies.left.Load() == room })
	if got := post(t, server, request); got.status != http.StatusOK {
		t.Errorf("%d %s", got.status, got.body)
	}
	b.until(t, func() bool { return b.bodies.left.Load() == room })
}

// A place among the inferences under way is not kept until the client has read its answer.
func TestClientsThatAreSlowToReadHoldUpNobody(t *testing.T) {
	b := newBench(t, 0)
	b.places = make(chan struct{}, 1)
	server := serveBench(t, b, "long")
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: m\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		inferPath, len(request), request); err != nil {
		t.Fatal(err)
	}
	revision := b.State().Serving
	b.until(t, func() bool { return b.Stats().At(revision).Versions["1"].Requests == 1 }) // it is being answered
	b.until(t, func() bool { return post(t, server, request).status == http.StatusOK })
}

func TestAnAnswerIsTakenInTime(t *testing.T) {
	b := newBench(t, 0)
	doc := b.route(t, nil, weightedBehaviour{"1", "echo", 1})
	b.untilServing(t, doc.Revision)
	r := httptest.NewRequest(http.MethodPost, inferPath, strings.NewReader(request))
	w := &patient{ResponseRecorder: httptest.NewRecorder()}
	before := time.Now()
	b.ServeHTTP(w, r)
	if w.Code != http.StatusOK || w.deadline.Before(before.Add(30*time.Second)) || w.deadline.After(time.Now().Add(30*time.Second)) {
		t.Errorf("%d; the answer may be taken until %v after the request, want 30 seconds", w.Code, w.deadline.Sub(before))
	}
}

// patient is an answer that knows until when it may be taken.
type patient struct {
	*httptest.ResponseRecorder
	deadline time.Time
}

func (p *patient) SetWriteDeadline(t time.Time) error {
	p.deadline = t
	return nil
}

func TestInferencesUnderWayAreBounded(t *testing.T) {
	b := newBench(t, 0)
	if cap(b.places) != 256 {
		t.Errorf("there is room for %d inferences, want 256", cap(b.places))
	}
	b.places = make(chan struct{}, 1)
	server := serveBench(t, b, "echo")
	b.places <- struct{}{}
	if got := post(t, server, request); got.status != http.StatusTooManyRequests || got.header.Get("Retry-After") != "1" {
		t.Errorf("%d with %v, want 429 with Retry-After", got.status, got.header)
	}
	<-b.places
	if got := post(t, server, request); got.status != http.StatusOK {
		t.Errorf("%d %s", got.status, got.body)
	}
}
