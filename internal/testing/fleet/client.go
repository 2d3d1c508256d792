package fleet

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/serving/gateway"
)

// NewHTTP returns a client with connections of its own, which gives up after a time.
func NewHTTP(timeout time.Duration) *http.Client {
	return &http.Client{Transport: &http.Transport{}, Timeout: timeout}
}

// Ask asks the replica at a URL, and returns the release that answered, the status and what it said. An error means that there was no answer.
func Ask(ctx context.Context, web *http.Client, url string) (release string, status int, said string, err error) {
	const question = `{"inputs":[{"name":"text","datatype":"BYTES","shape":[1],"data":["spam"]}]}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v2/models/"+Name+"/infer", strings.NewReader(question))
	if err != nil {
		return "", 0, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := web.Do(req)
	if err != nil {
		return "", 0, "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return resp.Header.Get(gateway.ReleaseHeader), resp.StatusCode, string(raw), err
}

// Client asks one replica all the time and remembers who answered last, and how often.
type Client struct {
	URL string

	mu     sync.Mutex
	counts map[string]int
	last   map[string]time.Time
	odd    error
}

// NewClient returns a client of a replica.
func NewClient(r *Replica) *Client {
	return &Client{URL: r.URL, counts: map[string]int{}, last: map[string]time.Time{}}
}

// Run asks, one request after the other, until ctx ends.
func (c *Client) Run(ctx context.Context, every time.Duration) {
	web := NewHTTP(time.Minute)
	defer web.CloseIdleConnections()
	for range poll.Every(ctx, every) {
		release, status, said, err := Ask(ctx, web, c.URL)
		now := time.Now()
		c.mu.Lock()
		switch {
		case ctx.Err() != nil:
		case err != nil:
			c.odd = err
		case status != http.StatusOK:
			c.odd = fmt.Errorf("%s answers with status %d: %s", c.URL, status, said)
		default:
			c.counts[release]++
			c.last[release] = now
		}
		c.mu.Unlock()
	}
}

// Seen returns how many answers a release gave, and when the last one came.
func (c *Client) Seen(release string) (int, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[release], c.last[release]
}

// Err returns what came in place of an answer, if ever anything did.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.odd
}
