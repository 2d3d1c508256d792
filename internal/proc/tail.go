package proc

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"unicode"
)

const (
	// maxTailLine bounds one line of a Tail in bytes; of a longer one the end is kept.
	maxTailLine = 4096
	// maxLast bounds what Last returns, in characters.
	maxLast = 200
)

// Tail is an io.Writer that remembers the last lines written to it, for the message when a command fails. Its memory is bounded
// by the number of lines times 4 KiB, whatever is written. It may be used from several goroutines.
type Tail struct {
	mu    sync.Mutex
	limit int
	lines []string // whole lines, the oldest first
	rest  []byte   // the line that has not ended yet
}

// NewTail returns a Tail of n lines.
func NewTail(n int) *Tail { return &Tail{limit: n} }

// Grow makes it remember n lines more.
func (t *Tail) Grow(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limit += n
}

// Write never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for rest := p; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte{'\n'})
		t.rest = append(t.rest, line[max(0, len(line)-maxTailLine):]...)
		t.rest = t.rest[max(0, len(t.rest)-maxTailLine):]
		if ended {
			t.lines = append(t.lines, string(t.rest))
			t.lines = t.lines[max(0, len(t.lines)-t.limit):]
			t.rest = t.rest[:0]
		}
		rest = after
	}
	return len(p), nil
}

// String returns the lines, also the last one when it has not ended, without a final newline.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := t.lines
	if len(t.rest) > 0 {
		lines = append(lines[:len(lines):len(lines)], string(t.rest))
	}
	return strings.Join(lines[max(0, len(lines)-t.limit):], "\n")
}

// Last is the last line that has a letter or a digit: of a program that failed it usually says why. It is cut to what fits a headline.
func (t *Tail) Last() string {
	for _, line := range slices.Backward(strings.Split(t.String(), "\n")) {
		if !strings.ContainsFunc(line, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			continue
		}
		line = strings.TrimSpace(line)
		last := []rune(line[strings.LastIndexByte(line, '\r')+1:]) // what a progress bar left there
		if len(last) > maxLast {
			last = append(last[:maxLast-1], '…')
		}
		return string(last)
	}
	return ""
}

// Explain goes behind "the program ended with exit code 1": its last line as the reason, and all lines below where there are more.
func (t *Tail) Explain() string {
	last, all := t.Last(), t.String()
	switch {
	case last == "":
		return ""
	case last == strings.TrimSpace(all):
		return ": " + last
	}
	return ": " + last + "\n" + all
}
