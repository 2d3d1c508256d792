package format

import (
	"bytes"
	"encoding/binary"
)

// linesAhead holds lines that were read ahead and may be read again. They are kept undecoded to save memory.
type linesAhead struct {
	// raw has each line, preceded by its length.
	raw []byte
	aheadPlace
	// last, if not nil, is a final line whose raw bytes are incomplete, so that it cannot be decoded again.
	last *line
}

// aheadPlace is a position in lines that were read ahead.
type aheadPlace struct {
	at     int
	offset int64 // of the next line
	beyond bool  // last was read
}

// forget drops the lines if all were read again. offset is that of the line after them.
func (a *linesAhead) forget(offset int64) {
	if !a.more() {
		*a = linesAhead{raw: a.raw[:0], aheadPlace: aheadPlace{offset: offset}}
	}
}

// more reports whether there are lines to read again.
func (a *linesAhead) more() bool { return a.at < len(a.raw) || a.last != nil && !a.beyond }

// next returns the next line; there must be one.
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

// add appends a line that was just read, with its raw bytes. An opaque line is the last.
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
