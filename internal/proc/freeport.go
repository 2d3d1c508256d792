package proc

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
)

// FreePort returns a port of a host of this machine on which nothing listens, outside the range that the kernel takes ports for outgoing
// connections from: none of those can take it before whoever is told of it listens.
func FreePort(ctx context.Context, host string) (int, error) {
	const tries = 50
	taken, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		taken = nil // the kernel's default is below
	}
	low, high := portsBeside(string(taken))
	var listen net.ListenConfig
	var last error
	for range tries {
		port := low + rand.IntN(high-low)
		l, err := listen.Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			last = err
			continue
		}
		return port, l.Close()
	}
	return 0, fmt.Errorf("no free port: %w", last)
}

// portsBeside is a range of ports, high excluded, that the kernel does not take for outgoing connections. taken is what the kernel says of
// those, as in ip_local_port_range (Linux, Documentation/networking/ip-sysctl.rst): the first and the last. By default it is 32768 to 60999,
// far above the usual range. Where that is the kernel's, the larger one of those below and above is taken, if it has enough ports.
func portsBeside(taken string) (low, high int) {
	const first, end, enough = 10000, 1 << 16, 100
	low, high = 20000, 32000
	var from, to int
	if n, err := fmt.Sscan(taken, &from, &to); n != 2 || err != nil || from >= high || to < low {
		return low, high
	}
	below, above := from-first, end-(to+1)
	switch {
	case max(below, above) < enough:
		return low, high
	case below >= above:
		return first, from
	}
	return to + 1, end
}
