package proc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"sync"
	"syscall"
	"time"
)

// streams are the standard streams of a command, and the copying of those that are not files.
type streams struct {
	theirs []*os.File // standard input, output and error of the command
	opened []*os.File // of theirs: those to close once the command has them
	ours   []*os.File // the other ends of pipes
	copies []func() error

	copying sync.WaitGroup
	mu      sync.Mutex
	err     error
}

// openStreams opens what a command reads from and writes to.
func openStreams(c Command) (*streams, error) {
	s := &streams{}
	err := s.input(c.Stdin)
	if err == nil {
		err = s.output(c.Stdout)
	}
	if err == nil && c.Stderr != nil && same(c.Stdout, c.Stderr) { // one pipe: no two goroutines write to it
		s.theirs = append(s.theirs, s.theirs[1])
	} else if err == nil {
		err = s.output(c.Stderr)
	}
	if err != nil {
		s.started()
		s.abandon()
		return nil, err
	}
	return s, nil
}

func same(a, b io.Writer) bool {
	return a != nil && reflect.TypeOf(a).Comparable() && a == b
}

func (s *streams) input(r io.Reader) error {
	switch r := r.(type) {
	case nil:
		return s.null()
	case *os.File:
		s.theirs = append(s.theirs, r)
		return nil
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		return err
	}
	s.theirs, s.opened, s.ours = append(s.theirs, theirs), append(s.opened, theirs), append(s.ours, ours)
	s.copies = append(s.copies, func() error {
		_, err := io.Copy(ours, r)
		if errors.Is(err, syscall.EPIPE) { // it has read enough
			err = nil
		}
		return errors.Join(err, ours.Close())
	})
	return nil
}

func (s *streams) output(w io.Writer) error {
	switch w := w.(type) {
	case nil:
		return s.null()
	case *os.File:
		s.theirs = append(s.theirs, w)
		return nil
	}
	ours, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	s.theirs, s.opened, s.ours = append(s.theirs, theirs), append(s.opened, theirs), append(s.ours, ours)
	s.copies = append(s.copies, func() error {
		_, err := io.Copy(w, ours)
		return errors.Join(err, ours.Close())
	})
	return nil
}

func (s *streams) null() error {
	f, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err == nil {
		s.theirs, s.opened = append(s.theirs, f), append(s.opened, f)
	}
	return err
}

// started closes what the command has now, if it was started.
func (s *streams) started() {
	for _, f := range s.opened {
		_ = f.Close() // nothing was written to it here
	}
}

// abandon closes what would have been copied from or to.
func (s *streams) abandon() {
	for _, f := range s.ours {
		_ = f.Close() // likewise
	}
}

// copy begins to copy.
func (s *streams) copy() {
	for _, do := range s.copies {
		s.copying.Go(func() {
			if err := do(); err != nil {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.err = errors.Join(s.err, err)
			}
		})
	}
}

// wait waits until all is copied, for a while: a process that is not a descendant of the command may have its streams.
func (s *streams) wait() error {
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		s.copying.Wait()
	}()
	limit := time.Now().Add(drainLimit)
	for _, f := range s.ours {
		_ = f.SetDeadline(limit) // fails where it has been copied already
	}
	select {
	case <-copied:
	case <-time.After(drainLimit + time.Second): // a Reader that waits for something else
		return fmt.Errorf("it is not copied after %v", drainLimit)
	}
	return s.err
}
