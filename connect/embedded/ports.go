package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// loopback is the only address anything here listens on.
const loopback = "127.0.0.1"

// ErrPortInUse is returned if a requested port belongs to another process.
var ErrPortInUse = errors.New("in use by another process")

// listen opens a listener on loopback: on port, or, when that is 0, on prefer if it happens to be free, else on any.
func listen(what string, port, prefer int) (net.Listener, error) {
	return open(what, port, prefer, func(port int) (net.Listener, error) {
		return new(net.ListenConfig).Listen(context.Background(), "tcp", address(port))
	})
}

// A reservation is a port that is bound but not listened on. While it is held, the kernel does not give the port to a process that asks for
// any free one, in bind(2) or connect(2). A listener that sets SO_REUSEADDR, as those of Go do, can still open on it.
type reservation struct{ fd, port int }

// reserve reserves the port that listen would take.
func reserve(what string, port, prefer int) (reservation, error) {
	return open(what, port, prefer, bind)
}

// bind binds a socket to port of loopback, or to a free one if port is 0.
func bind(port int) (r reservation, err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return reservation{}, os.NewSyscallError("socket", err)
	}
	r.fd = fd
	defer func() {
		if err != nil {
			r.release()
		}
	}()
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return r, os.NewSyscallError("setsockopt", err)
	}
	ip := netip.MustParseAddr(loopback).As4()
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: ip}); err != nil {
		return r, os.NewSyscallError("bind", err)
	}
	bound, err := unix.Getsockname(fd)
	if err != nil {
		return r, os.NewSyscallError("getsockname", err)
	}
	r.port = bound.(*unix.SockaddrInet4).Port
	return r, nil
}

// release releases the port. A listener that is open on it stays.
func (r reservation) release() { _ = unix.Close(r.fd) }

// open calls try with port. If port is 0, it calls it with prefer first, and then with 0 for any free port.
func open[T any](what string, port, prefer int, try func(port int) (T, error)) (none T, _ error) {
	if port == 0 && prefer != 0 {
		if taken, err := try(prefer); err == nil {
			return taken, nil
		}
	}
	taken, err := try(port)
	if errors.Is(err, syscall.EADDRINUSE) {
		return none, fmt.Errorf("port %d for %s is %w: stop that process, choose another port, or use 0 for any free port", port, what, ErrPortInUse)
	}
	if err != nil {
		return none, fmt.Errorf("open a port for %s: %w", what, err)
	}
	return taken, nil
}

func port(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
