package metrics

import (
	"bufio"
	"errors"
	"io"
	"slices"
)

// UpTo reads the lines up to a step that keep is for, in order, without those that are no JSON objects, are another rank's or are longer than
// MaxLine. A line that names no step belongs to that of the line before. It holds one line at a time: after a million steps there are many.
func UpTo(r io.Reader, step int64, keep func(text []byte) bool) io.Reader {
	return &upTo{in: bufio.NewReaderSize(r, MaxLine), step: step, keep: keep}
}

type upTo struct {
	in       *bufio.Reader
	keep     func([]byte) bool
	step, at int64  // up to which step, and that of the last line
	line     []byte // what has not been read yet of one
	long     bool   // a line that is longer than MaxLine goes on
	err      error
}

func (u *upTo) Read(p []byte) (int, error) {
	for len(u.line) == 0 {
		if u.err != nil {
			return 0, u.err
		}
		u.next()
	}
	n := copy(p, u.line)
	u.line = u.line[n:]
	return n, nil
}

// next takes in the next line, if it is one of those to read.
func (u *upTo) next() {
	text, err := u.in.ReadSlice('\n')
	long := u.long
	if u.long = errors.Is(err, bufio.ErrBufferFull); u.long {
		return
	}
	u.err = err
	line, ok := Parse(text)
	if long || !ok || line.OfOtherRank() || !u.keep(text) {
		return
	}
	if named, ok := line.Step(); ok {
		u.at = named
	}
	if u.at > u.step {
		return
	}
	if u.line = text; err != nil { // the last one, without its end
		u.line = append(slices.Clip(text), '\n')
	}
}
