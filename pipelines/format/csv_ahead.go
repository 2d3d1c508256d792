package format

import (
	"bytes"
	"encoding/binary"
)

// linesAhead are lines that were read ahead, to be read again. They are kept as they were read, which is the least memory.
type linesAhead struct {
	// raw has each line after its length.
	raw []byte
	aheadPlace
	// last follows them, if it is not nil: a line that cannot be read again from what is kept of it.
	last *line
}

// aheadPlace is a place in lines that were read ahead.
type aheadPlace struct {
	at     int
	offset int64 // of the next line
	beyond bool  // last was read
}

// forget drops what was read again, once it is all. offset is that of the line below.
func (a *linesAhead) forget(offset int64) {
	if !a.more() {
		*a = linesAhead{raw: a.raw[:0], aheadPlace: aheadPlace{offset: offset}}
	}
}

// more reports whether there are lines to read again.
func (a *linesAhead) more() bool { return a.at < len(a.raw) || a.last != nil && !a.beyond }

// next returns the next of the lines, of which there must be more.
func (a *linesAhead) next(charset charset) line {
	if a.at == len(a.raw) {
		a.beyond = true
		return *a.last
	}
	size, n := binary.Uvarint(a.raw[a.at:])
	raw := a.raw[a.at+n:][:size:size]
	l := line{offset: a.offset}
	l.text, l.err = charset.decode(raw, a.offset)
	a.at += n + int(size)
	a.offset += int64(int(size) + charset.width)
	return l
}

// add appends a line that was just read, with its raw text. None follows one that is opaque: damaged, or too long.
func (a *linesAhead) add(l line, raw []byte, width int) {
	if l.opaque() {
		l.text = bytes.Clone(l.text)
		a.last, a.beyond = &l, true
		return
	}
	a.raw = append(binary.AppendUvarint(a.raw, uint64(len(raw))), raw...)
	a.at = len(a.raw)
	a.offset = l.offset + int64(len(raw)+width)
}
