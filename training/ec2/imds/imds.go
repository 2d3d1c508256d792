// Package imds asks the instance metadata service of EC2, version 2, whether the instance is going to be taken away. It is apart from
// package ec2 because the node agent has it in it, and AWS's SDK is large.
package imds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	// Address is where the service is on every instance.
	Address = "http://169.254.169.254"
	// tokenLife is how long a session lasts.
	tokenLife = "21600"
	// answerTime bounds a request: the service is on the same host.
	answerTime = 2 * time.Second
	// maxAnswer bounds an answer.
	maxAnswer = 64 << 10
)

// ErrNotThere says that the service has no such thing, such as the notice of an instance that nobody takes.
var ErrNotThere = errors.New("not in the instance's metadata")

// errSession: the session has expired.
var errSession = errors.New("the session is over")

// Client asks the service. It is for one goroutine.
type Client struct {
	base  string
	http  *http.Client
	token string
}

// New makes a client of the service at base, such as Address.
func New(base string) *Client {
	// Never through a proxy: the service answers by who asks.
	return &Client{base: strings.TrimSuffix(base, "/"), http: &http.Client{Timeout: answerTime, Transport: &http.Transport{}}}
}

// Interruption says when the instance will be taken away; ok is false while nobody wants to.
func (c *Client) Interruption(ctx context.Context) (until time.Time, ok bool, err error) {
	raw, err := c.get(ctx, "spot/instance-action")
	if errors.Is(err, ErrNotThere) {
		return time.Time{}, false, nil
	}
	if err != nil {
		return time.Time{}, false, err
	}
	var said struct {
		Time time.Time `json:"time"`
	}
	if err := json.Unmarshal(raw, &said); err != nil {
		return time.Time{}, false, fmt.Errorf("the notice of the metadata service: %w", err)
	}
	return said.Time, true, nil
}

// get reads latest/meta-data/<path>.
func (c *Client) get(ctx context.Context, path string) ([]byte, error) {
	for range 2 { // the second time in a new session
		if c.token == "" {
			token, err := c.ask(ctx, http.MethodPut, "/latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds", tokenLife)
			if err != nil {
				return nil, fmt.Errorf("open a session: %w", err)
			}
			c.token = string(token)
		}
		raw, err := c.ask(ctx, http.MethodGet, "/latest/meta-data/"+path, "X-aws-ec2-metadata-token", c.token)
		if !errors.Is(err, errSession) {
			return raw, err
		}
		c.token = ""
	}
	return nil, errSession
}

func (c *Client) ask(ctx context.Context, method, path, header, value string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set(header, value)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("instance metadata: %w", err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		return io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	case http.StatusUnauthorized:
		return nil, errSession
	case http.StatusNotFound:
		return nil, fmt.Errorf("%s: %w", path, ErrNotThere)
	}
	return nil, fmt.Errorf("instance metadata: %s answered %s", path, resp.Status)
}
