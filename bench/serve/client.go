package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/sluiceml/sluice/serving/oip"
)

const (
	// answerWithin bounds a request, so that a server that hangs ends the bench.
	answerWithin = time.Minute
	// idleFor is how long a connection may be unused. Servers close theirs after a few seconds.
	idleFor = time.Second
)

// client asks a server for the same row of a model again and again. It writes to a connection and reads from it, on the goroutine that
// asks: net/http's client hands each request to two others, whose time would be taken for the server's.
type client struct {
	address string
	request []byte

	mu   sync.Mutex
	idle []*connection
}

// connection is used by one request at a time.
type connection struct {
	net.Conn
	answers *bufio.Reader
	used    time.Time
}

// overREST returns what asks a server for a row of a model.
func overREST(url string, m mlp) (ask, error) {
	body, err := json.Marshal(oip.InferRequest{Inputs: []oip.Tensor{m.row()}})
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequest(http.MethodPost, url+"/v2/models/"+modelName+"/infer", bytes.NewReader(body)) //nolint:noctx // it is only written down
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	var request bytes.Buffer
	if err := r.Write(&request); err != nil {
		return nil, err
	}
	c := &client{address: r.URL.Host, request: request.Bytes()}
	return c.ask, nil
}

func (c *client) ask(ctx context.Context) error {
	conn, err := c.take(ctx)
	if err != nil {
		return err
	}
	if err := conn.ask(c.request); err != nil {
		_ = conn.Close() // err says what happened
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, conn)
	return nil
}

// take returns the connection that was used last, or a new one.
func (c *client) take(ctx context.Context) (*connection, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := len(c.idle) - 1; last >= 0 {
		conn := c.idle[last]
		c.idle = c.idle[:last]
		if time.Since(conn.used) < idleFor {
			return conn, nil
		}
		_ = conn.Close() // nothing was asked that it could have answered
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.address)
	if err != nil {
		return nil, err
	}
	return &connection{Conn: conn, answers: bufio.NewReader(conn)}, nil
}

func (c *connection) ask(request []byte) error {
	if err := c.SetDeadline(time.Now().Add(answerWithin)); err != nil {
		return err
	}
	if _, err := c.Write(request); err != nil {
		return err
	}
	res, err := http.ReadResponse(c.answers, nil)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }() // only read from
	answer, err := io.ReadAll(res.Body)
	switch {
	case err != nil || res.StatusCode == http.StatusOK:
	case res.StatusCode == http.StatusTooManyRequests:
		err = fmt.Errorf("%w: %s", errBusy, answer)
	default:
		err = fmt.Errorf("%s: %s", res.Status, answer)
	}
	c.used = time.Now()
	return err
}
