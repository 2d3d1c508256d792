package format

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"

	"github.com/sluiceml/sluice/pipelines/rows"
)

// line is one line of a text.
type line struct {
	// offset is that of its first byte in the file's content.
	offset int64
	// text is the line in UTF-8 without the LF, valid until the next line is read.
	text []byte
	// err is a rejection; text is then what can be shown of the line.
	err error
}

// opaque reports whether the line is incomplete, because it is too long or the data is damaged.
func (l line) opaque() bool {
	why, ok := errors.AsType[*rows.Rejection](l.err)
	return ok && (why.Reason == rows.ReasonDamaged || why.Reason == "too_long")
}

// lineReader reads the lines of a text in any encoding. It holds one line, of at most rows.MaxSize bytes.
type lineReader struct {
	charset charset

	r     *bufio.Reader
	at    int64
	raw   []byte
	last  [2]byte // the two bytes read last
	ended bool
}

// lineBuffer is the size of the read buffer.
const lineBuffer = 256 << 10

// newLineReader reads the lines of a content from its start. A byte order mark overrides the declared encoding.
func newLineReader(r io.Reader, declared charset) (*lineReader, error) {
	l := &lineReader{r: bufio.NewReaderSize(r, lineBuffer)}
	head, err := l.r.Peek(3)
	if damaged := (*damage)(nil); err != nil && !errors.Is(err, io.EOF) && !errors.As(err, &damaged) {
		return nil, err
	}
	mark := 0
	l.charset, mark = declared.detect(head)
	l.at = int64(mark)
	_, err = l.r.Discard(mark)
	return l, err
}

// next returns the next line. At the end the error is io.EOF; if the content is damaged, the last line is a rejection.
func (l *lineReader) next() (line, error) {
	if l.ended {
		return line{}, io.EOF
	}
	start := l.at
	whole, err := l.fill()
	var damaged *damage
	switch {
	case errors.As(err, &damaged):
		l.ended = true
		text, _ := l.charset.decode(l.raw, start)
		return line{start, text, rows.Reject(rows.ReasonDamaged, "%s; the rest of the file is not read", damaged)}, nil
	case errors.Is(err, io.EOF):
		l.ended = true
		if l.at == start {
			return line{}, io.EOF
		}
	case err != nil:
		return line{}, err
	}
	if !whole {
		text, _ := l.charset.decode(l.raw[:rows.MaxText+4], start)
		return line{start, text, rows.TooLong(l.raw)}, nil
	}
	text, err := l.charset.decode(l.raw, start)
	return line{start, text, err}, nil
}

// skip moves to the start of the next line, or past limit if no line starts before it.
func (l *lineReader) skip(limit int64) error {
	for l.at < limit {
		chunk, err := l.r.ReadSlice('\n')
		l.at += int64(len(chunk))
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
	return nil
}

// fill reads the next line into raw, without its LF. If the line is longer than rows.MaxSize, it keeps the start and reports that it is not
// whole.
func (l *lineReader) fill() (whole bool, err error) {
	l.raw = l.raw[:0]
	start := l.at
	for {
		chunk, err := l.r.ReadSlice('\n')
		l.at += int64(len(chunk))
		l.keep(chunk)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		size := l.at - start
		if err != nil {
			return size <= rows.MaxSize, err
		}
		end, err := l.endsHere(size)
		if err != nil || end {
			size = l.at - start - int64(l.charset.width)
			if end && size <= rows.MaxSize {
				l.raw = l.raw[:size]
			}
			return size <= rows.MaxSize, err
		}
	}
}

// keep appends to raw as much as fits: one byte more than a row may have, so that a line that is too long is recognized, and the LF.
func (l *lineReader) keep(chunk []byte) {
	for _, b := range chunk[max(len(chunk)-2, 0):] {
		l.last = [2]byte{l.last[1], b}
	}
	n := min(len(chunk), rows.MaxSize+1+l.charset.width-len(l.raw))
	l.raw = append(l.raw, chunk[:n]...)
}

// endsHere reports whether the byte 0x0A that was just read, as the size-th byte of the line, is a line feed and not half of a UTF-16 code
// unit.
func (l *lineReader) endsHere(size int64) (bool, error) {
	if l.charset.width == 1 {
		return true, nil
	}
	if l.charset.bigEndian {
		return size%2 == 0 && l.last[0] == 0, nil
	}
	if size%2 == 0 {
		return false, nil
	}
	next, err := l.r.ReadByte()
	if errors.Is(err, io.EOF) {
		return false, nil // the next read returns it
	} else if err != nil {
		return false, err
	}
	l.at++
	l.keep([]byte{next})
	return next == 0, nil
}

// ReadLines calls yield for each line of a file that this program has written.
func ReadLines(ctx context.Context, path string, yield func([]byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, lineBuffer), rows.MaxSize+1)
	for lines.Scan() {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := yield(lines.Bytes()); err != nil {
			return err
		}
	}
	return lines.Err()
}
