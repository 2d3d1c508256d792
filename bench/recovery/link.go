package main

import (
	"context"
	"io"
	"net"
	"sync"
	"time"
)

// link passes connections on to a server, at a bounded rate for all that is sent there together.
type link struct {
	listener net.Listener
	server   string
	rate     float64 // bytes a second

	mu   sync.Mutex
	free time.Time // when what has been sent so far is through
}

// openLink opens a link to a server, until ctx ends.
func openLink(ctx context.Context, server string, rate float64) (*link, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &link{listener: listener, server: server, rate: rate}
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	go l.serve(ctx)
	return l, nil
}

func (l *link) address() string { return l.listener.Addr().String() }

func (l *link) serve(ctx context.Context) {
	for {
		conn, err := l.listener.Accept()
		if err != nil {
			return
		}
		go l.pass(ctx, conn)
	}
}

// pass passes one connection on, both ways.
func (l *link) pass(ctx context.Context, conn net.Conn) {
	defer conn.Close() //nolint:errcheck // either side sees what is broken off
	var dialer net.Dialer
	server, err := dialer.DialContext(ctx, "tcp", l.server)
	if err != nil {
		return
	}
	defer server.Close() //nolint:errcheck // as above
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() {
		_, _ = io.Copy(conn, server)
		_ = conn.Close()
	}()
	_, _ = io.Copy(slow{l, server}, conn)
}

// shortest is what a connection may be ahead of the rate: shorter sleeps take longer than they should.
const shortest = 5 * time.Millisecond

// slow is a writer at the link's rate.
type slow struct {
	link *link
	to   io.Writer
}

func (s slow) Write(b []byte) (int, error) {
	if ahead := s.link.book(len(b)); ahead > shortest {
		time.Sleep(ahead)
	}
	return s.to.Write(b)
}

// book takes the link's time for n bytes, and returns how long it is until they are through.
func (l *link) book(n int) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.free.Before(now) {
		l.free = now
	}
	l.free = l.free.Add(time.Duration(float64(n) / l.rate * float64(time.Second)))
	return l.free.Sub(now)
}
