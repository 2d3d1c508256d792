package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// loopback is the only address anything here listens on.
const loopback = "127.0.0.1"

// ErrPortInUse says that a port that was asked for belongs to another process.
var ErrPortInUse = errors.New("in use by another process")

// listen opens a listener on loopback: on port, or, when that is 0, on prefer if it happens to be free, else on any.
func listen(what string, port, prefer int) (net.Listener, error) {
	if port == 0 && prefer != 0 {
		if l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address(prefer)); err == nil {
			return l, nil
		}
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address(port))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("port %d for %s is %w: stop that process, choose another port, or use 0 for any free port", port, what, ErrPortInUse)
	}
	if err != nil {
		return nil, fmt.Errorf("open a port for %s: %w", what, err)
	}
	return l, nil
}

// freePorts finds as many free ports, all different.
func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		l, err := listen("Temporal's services", 0, 0)
		if err != nil {
			return nil, err
		}
		defer l.Close() //nolint:errcheck // nothing was sent; only at the end, or the next could get the same
		ports[i] = port(l)
	}
	return ports, nil
}

func port(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
