package format

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/sluiceml/sluice/pipelines/rows"
)

// csvReader reads the records of RFC 4180: fields between delimiters, in quotes if they contain a delimiter, a quote or a line break. If a
// record is malformed, only its first line is consumed, so that a quote that is never closed does not swallow the lines after it.
type csvReader struct {
	lines     *lineReader
	delimiter []byte
	// quotes is false if quotes are ordinary characters.
	quotes bool
	// line is the number, from 1, of the line that was read last. Zero or negative: unknown.
	line int64

	fields []byte // the record's fields, concatenated
	ends   []int  // end of each field in fields
	text   []byte // the record's source text, cut off after about rows.MaxText
	state  csvState
	ahead  linesAhead // lines of the record after its first
}

type csvState int

const (
	fieldStart csvState = iota
	inPlain
	inQuotes
	afterQuote // either the closing quote or the first of two
)

// csvRecord is one record; its text is valid until the next record is read.
type csvRecord struct {
	offset int64
	fields []string
	text   []byte
	err    error // a rejection
}

func newCSVReader(lines *lineReader, delimiter string, quotes bool) *csvReader {
	return &csvReader{lines: lines, delimiter: []byte(delimiter), quotes: quotes}
}

// next returns the next record, and skips empty lines between records. At the end the error is io.EOF.
func (c *csvReader) next() (csvRecord, error) {
	for {
		l, err := c.nextLine(false)
		if err != nil {
			return csvRecord{}, err
		}
		if l.err != nil || len(bytes.TrimSuffix(l.text, []byte{'\r'})) > 0 {
			return c.record(l)
		}
	}
}

// nextLine returns the next line. If keep is set, the line is recorded so that it can be read again.
func (c *csvReader) nextLine(keep bool) (l line, err error) {
	if c.ahead.more() {
		l = c.ahead.next(c.lines.charset)
	} else if l, err = c.lines.next(); err != nil {
		return l, err
	} else if keep {
		c.ahead.add(l, c.lines.raw, c.lines.charset.width)
	}
	c.line++
	return l, nil
}

// record reads the record that begins with a line.
//
// No line is read more than twice: a line that would open a quote at the beginning of a record closes one inside a record. So among the
// lines of a malformed record, only the last can begin another record of several lines.
func (c *csvReader) record(l line) (csvRecord, error) {
	c.fields, c.ends, c.text, c.state = c.fields[:0], c.ends[:0], c.text[:0], fieldStart
	r := csvRecord{offset: l.offset, err: l.err}
	first, size := c.line, int64(0)
	broken := c.take(l, &size)
	c.ahead.forget(c.lines.at)
	back, shown := c.ahead.aheadPlace, len(c.text)
	var below error // error of a line after the first
	for broken == nil && c.state == inQuotes {
		l, err := c.nextLine(true)
		switch {
		case errors.Is(err, io.EOF):
			broken = rows.Reject("unclosed_quote", "the record that begins on line %d has a quoted field that is never closed", first)
		case err != nil:
			return r, err
		default:
			broken = beginsAt(first, c.take(l, &size))
		}
		below = cmp.Or(below, l.err)
	}
	if broken == nil {
		r.err = cmp.Or(r.err, below)
	} else {
		c.text, c.line, c.ahead.aheadPlace = c.text[:shown], first, back
		r.err = cmp.Or(r.err, broken)
	}
	start := 0
	for _, end := range c.ends {
		r.fields = append(r.fields, string(c.fields[start:end]))
		start = end
	}
	r.text = bytes.TrimSuffix(c.text, []byte{'\r'})
	return r, nil
}

// take adds a line to the record and to size. An error means that the record is malformed.
func (c *csvReader) take(l line, size *int64) error {
	if *size > 0 {
		c.text = append(c.text, '\n')
	}
	c.text = append(c.text, l.text[:min(len(l.text), max(0, rows.MaxText+4-len(c.text)))]...)
	*size += int64(len(l.text)) + 1
	switch {
	case l.opaque():
		return l.err
	case *size > rows.MaxSize+1:
		return rows.Reject("too_long", "the row has more than %d bytes", rows.MaxSize)
	}
	return c.parse(l.text)
}

// beginsAt adds to a rejection the line on which the record begins: only that line is rejected.
func beginsAt(line int64, err error) error {
	why, ok := errors.AsType[*rows.Rejection](err)
	if !ok {
		return err
	}
	return rows.Reject(why.Reason, "the record that begins on line %d has a quoted field that continues on the next line, which is malformed: %s", line, why.Message)
}

// parse splits a line into fields.
func (c *csvReader) parse(text []byte) (err error) {
	for {
		switch c.state {
		case fieldStart:
			if c.quotes && len(text) > 0 && text[0] == '"' {
				c.state, text = inQuotes, text[1:]
				continue
			}
			c.state = inPlain
		case inPlain, afterQuote:
			value, rest, more := bytes.Cut(text, c.delimiter)
			if !more {
				value = bytes.TrimSuffix(value, []byte{'\r'})
			}
			if err == nil {
				err = c.checkPlain(value)
			}
			c.fields = append(c.fields, value...)
			c.ends = append(c.ends, len(c.fields))
			if !more {
				return err
			}
			c.state, text = fieldStart, rest
		case inQuotes:
			at := bytes.IndexByte(text, '"')
			if at < 0 {
				c.fields = append(append(c.fields, text...), '\n')
				return err
			}
			c.fields, text = append(c.fields, text[:at]...), text[at+1:]
			if len(text) > 0 && text[0] == '"' {
				c.fields, text = append(c.fields, '"'), text[1:]
				continue
			}
			c.state = afterQuote
		}
	}
}

// checkPlain rejects quotes in unquoted fields and text after a closing quote.
func (c *csvReader) checkPlain(value []byte) error {
	switch {
	case !c.quotes:
	case c.state == afterQuote && len(value) > 0:
		return rows.Reject("bad_quote", "%sa quoted field continues after its closing quote; inside a field write a quote twice", c.where())
	case bytes.IndexByte(value, '"') >= 0:
		return rows.Reject("bad_quote", "%sa quote in an unquoted field; put the field in quotes and write the quote in it twice", c.where())
	}
	return nil
}

// where returns the line number as a prefix of a message, if it is known.
func (c *csvReader) where() string {
	if c.line <= 0 {
		return ""
	}
	return fmt.Sprintf("line %d: ", c.line)
}
