package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluiceml/sluice/internal/logfile"
	"github.com/sluiceml/sluice/internal/proc"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/upstream"
)

const (
	host = "127.0.0.1"
	// grace is how long a process may take to end.
	grace = 5 * time.Second
	// starts is how often a process may end before it was ever healthy: it may have been killed, or its port been taken.
	starts = 3
	// The pause before a process that was healthy is started again doubles up to maxPause.
	minPause = time.Second
	maxPause = 30 * time.Second
	// tailLines of the output are in the error of a process that ended.
	tailLines = 10
)

// hungAfter is for how long a process may be unhealthy before it is ended and started again. Tests set it.
var hungAfter = time.Minute

// kept is the process of a release.
type kept struct {
	*releases
	version     string
	home, model string
	now         atomic.Pointer[running] // nil while there is none that was healthy
	inputs      []oip.TensorMetadata
	outputs     []oip.TensorMetadata
	stop        context.CancelFunc
	keeping     sync.WaitGroup
}

// running is one life of the process.
type running struct {
	process *proc.Process
	server  *upstream.Watched
	tail    *proc.Tail
}

// ended is the error of a process that has.
func (r *running) ended() error {
	exit, err := r.process.Wait()
	if err != nil {
		return err
	}
	return errors.New("the process ended with " + exit.String() + r.tail.Explain())
}

// errEnded says that a process ended before it was healthy.
var errEnded = errors.New("its server was never healthy")

// begin starts the process for the first time and returns when it is healthy.
func (k *kept) begin(ctx context.Context, waiting func(string)) error {
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	readyWithin := time.Duration(k.spec.ReadyWithin)
	began, within := time.Now(), readyWithin
	var first *running
	var err error
	for range starts {
		first, err = k.start(ctx, life, within, waiting)
		if within = readyWithin - time.Since(began); !errors.Is(err, errEnded) || within <= 0 {
			break
		}
		k.log.Warn("the process of a release ended before it was healthy", "target", k.target, "release", k.version, "error", err)
	}
	if err != nil {
		stop()
		return err
	}
	k.inputs, k.outputs, k.stop = first.server.Inputs(), first.server.Outputs(), stop
	k.now.Store(first)
	k.keeping.Go(func() { k.keep(life, first) })
	return nil
}

// start starts the process, which lives no longer than life, and returns when it is healthy, within a time. errEnded says that it ended
// before.
func (k *kept) start(ctx, life context.Context, within time.Duration, waiting func(string)) (*running, error) {
	port, err := proc.FreePort(ctx, host)
	if err != nil {
		return nil, err
	}
	out, err := logfile.Open(filepath.Join(k.logs, k.version+".log"), maxLog)
	if err != nil {
		return nil, err
	}
	r := &running{tail: proc.NewTail(tailLines)}
	values := placeholders(k.model, strconv.Itoa(port))
	words := k.command(values)
	both := &output{log: out, tail: r.tail}
	r.process, err = proc.Start(life, proc.Command{Path: words[0], Args: words[1:], Env: k.environ(values), Stdout: both, Stderr: both, Grace: grace})
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	alive, died := context.WithCancelCause(ctx)
	go func() {
		<-r.process.Done()
		died(fmt.Errorf("%w: %w", errEnded, r.ended()))
		_ = out.Close() // what was printed has been written
	}()
	r.server, err = upstream.Await(alive, upstream.Options{
		URL: "http://" + net.JoinHostPort(host, strconv.Itoa(port)), Protocol: gateway.Protocol(k.spec.Protocol),
		Model: cmp.Or(k.spec.Model, k.target), Health: k.spec.Health, HungAfter: hungAfter,
	}, within, waiting)
	if err != nil {
		r.process.Terminate(context.WithoutCancel(ctx))
		if !errors.Is(err, errEnded) {
			err = fmt.Errorf("%w%s", err, r.tail.Explain())
		}
		return nil, err
	}
	return r, nil
}

// keep starts the process again whenever it has ended or hung, until life ends.
func (k *kept) keep(life context.Context, r *running) {
	pause := minPause
	for {
		if r != nil {
			select {
			case <-r.process.Done():
			case <-r.server.Hung():
				k.log.Error("the process of a release is not healthy for too long, and is ended", "target", k.target, "release", k.version)
				r.process.Terminate(life)
			}
			k.now.Store(nil)
			err := r.server.Close()
			if life.Err() != nil {
				return
			}
			k.log.Error("the process of a release ended; it is started again", "target", k.target, "release", k.version, "error", errors.Join(r.ended(), err))
		}
		select {
		case <-life.Done():
			return
		case <-time.After(pause):
		}
		began := time.Now()
		var err error
		if r, err = k.start(life, life, time.Duration(k.spec.ReadyWithin), func(string) {}); err != nil {
			pause = min(2*pause, maxPause)
			if life.Err() == nil {
				k.log.Error("the process of a release cannot be started again", "target", k.target, "release", k.version, "error", err)
			}
			continue
		}
		k.now.Store(r)
		pause = minPause
		k.log.Info("the process of a release is healthy again", "target", k.target, "release", k.version, "seconds", time.Since(began).Seconds())
	}
}

// serving returns the server, while there is one.
func (k *kept) serving() (*upstream.Watched, error) {
	if r := k.now.Load(); r != nil {
		return r.server, nil
	}
	return nil, &oip.Error{
		Status: http.StatusServiceUnavailable, Message: "the process of release " + k.version + " has ended and is being started again", RetryAfter: minPause,
	}
}

// Inputs implements gateway.Upstream.
func (k *kept) Inputs() []oip.TensorMetadata { return k.inputs }

// Outputs implements gateway.Upstream.
func (k *kept) Outputs() []oip.TensorMetadata { return k.outputs }

// Infer implements gateway.Upstream.
func (k *kept) Infer(ctx context.Context, inputs []oip.Tensor) ([]oip.Tensor, error) {
	server, err := k.serving()
	if err != nil {
		return nil, err
	}
	return server.Infer(ctx, inputs)
}

// Forward implements gateway.Forwarder.
func (k *kept) Forward(ctx context.Context, r *http.Request, header http.Header, body []byte) (*http.Response, error) {
	server, err := k.serving()
	if err != nil {
		return nil, err
	}
	return server.Forward(ctx, r, header, body)
}

// Close ends the process and removes its model.
func (k *kept) Close() error {
	k.stop()
	k.keeping.Wait()
	return os.RemoveAll(k.home)
}
