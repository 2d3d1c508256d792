package gateway

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluiceml/sluice/serving/oip"
)

const (
	maxBody     = 16 << 20         // bytes of one request
	maxBodies   = 8 * maxBody      // of the requests under way; decoded they take several times as much memory
	bodyTimeout = time.Minute      // for a request to arrive
	maxInFlight = 256              // inferences
	answerTime  = 30 * time.Second // for an answer to be taken
)

// bodies limits the bytes of requests that are in memory at once. A byte is counted when it arrives, not when a client announces it: a slow
// sender occupies no more than it has sent.
type bodies struct {
	left    atomic.Int64
	timeout time.Duration
}

func newBodies() *bodies {
	b := &bodies{timeout: bodyTimeout}
	b.left.Store(maxBodies)
	return b
}

// read returns a request's body, which has to arrive in time. done gives its bytes back; call it whatever the error is, once or more.
func (b *bodies) read(w http.ResponseWriter, r *http.Request) (body []byte, done func(), err error) {
	counted := &countedBody{ReadCloser: r.Body, of: b}
	r.Body = counted
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(b.timeout)) // connections have one; what tests write to may not
	body, err = oip.ReadBody(w, r, maxBody)
	return body, sync.OnceFunc(counted.giveBack), err
}

// takenBy ends the answer of a client that has not taken it by then.
func takenBy(w http.ResponseWriter, deadline time.Time) {
	_ = http.NewResponseController(w).SetWriteDeadline(deadline) // as above
}

// countedBody takes what it reads from the bytes that all bodies may have.
type countedBody struct {
	io.ReadCloser
	of    *bodies
	taken int64
}

// Read implements io.Reader.
func (c *countedBody) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.taken += int64(n)
	if c.of.left.Add(-int64(n)) < 0 {
		return 0, busy("the requests in flight have %d MiB of data, which is the gateway's limit", maxBodies>>20)
	}
	return n, err
}

func (c *countedBody) giveBack() { c.of.left.Add(c.taken) }

// busy is the answer to a request above the limits, which the client may send again soon.
func busy(format string, args ...any) error {
	return &oip.Error{Status: http.StatusTooManyRequests, Message: fmt.Sprintf(format, args...), RetryAfter: time.Second}
}
