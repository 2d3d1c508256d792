package pipelines

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// csvReader reads the records of RFC 4180: fields between delimiters, in quotes where they hold one, a quote or a line end.
type csvReader struct {
	lines     *lineReader
	delimiter []byte
	// quotes is false when a quote is a character like any other.
	quotes bool
	// line is the number of the line read last, from 1; 0 when it is not known.
	line int64

	fields  []byte // of the record, one after the other
	ends    []int  // of each field in fields
	text    []byte // of the record as it stands there, at most maxDeadText and a bit
	size    int64
	skipped int // quotes in what the reader of lines did not keep
	state   csvState
}

type csvState int

const (
	fieldStart csvState = iota
	inPlain
	inQuotes
	afterQuote // the closing one, or the first of two
)

// csvRecord is one record; its parts are valid until the next.
type csvRecord struct {
	offset int64
	fields []string
	text   []byte
	err    error // a rejection
}

func newCSVReader(lines *lineReader, delimiter string, quotes bool) *csvReader {
	c := &csvReader{lines: lines, delimiter: []byte(delimiter), quotes: quotes}
	lines.skipped = func(b []byte) { c.skipped += bytes.Count(b, []byte{'"'}) }
	return c
}

// next returns the next record; empty lines between records are none. At the end the error is io.EOF.
func (c *csvReader) next() (csvRecord, error) {
	c.fields, c.ends, c.text, c.size, c.state = c.fields[:0], c.ends[:0], c.text[:0], 0, fieldStart
	var r csvRecord
	first := int64(0)
	for begun := false; !begun || c.state == inQuotes; {
		l, err := c.lines.next()
		if errors.Is(err, io.EOF) && begun {
			break
		} else if err != nil {
			return r, err
		}
		if c.line++; !begun {
			r.offset, first = l.offset, c.line
			if begun = l.err != nil || len(bytes.TrimSuffix(l.text, []byte{'\r'})) > 0; !begun {
				continue
			}
		}
		if err := c.add(l); r.err == nil {
			r.err = err
		}
	}
	if c.state == inQuotes && r.err == nil {
		r.err = reject("unclosed_quote", "the record that begins in line %d has a quoted field that is never closed; it goes on to line %d",
			first, c.line)
	}
	start := 0
	for _, end := range c.ends {
		r.fields = append(r.fields, string(c.fields[start:end]))
		start = end
	}
	r.text = bytes.TrimSuffix(c.text, []byte{'\r'})
	return r, nil
}

// add takes in a line of the record. Its errors are rejections; the record's end is found all the same.
func (c *csvReader) add(l line) error {
	text := l.text
	if c.size > 0 {
		c.text = append(c.text, '\n')
	}
	c.text = append(c.text, text[:min(len(text), max(0, maxDeadText+4-len(c.text)))]...)
	c.size += int64(len(text)) + 1
	switch {
	case l.err != nil && c.lines.ended:
		c.state = fieldStart // nothing follows
		return l.err
	case l.err != nil && len(c.lines.raw) > maxRow:
		c.countQuotes(c.lines.raw, c.skipped)
		c.skipped = 0
		return l.err
	case c.size > maxRow+1:
		c.countQuotes(text, 0)
		return reject("too_long", "the row has more than %d bytes", maxRow)
	}
	return errors.Join(l.err, c.parse(text))
}

// countQuotes finds the state at the end of a line whose fields do not matter: each quote begins or ends something.
func (c *csvReader) countQuotes(text []byte, more int) {
	if c.quotes && (bytes.Count(text, []byte{'"'})+more)%2 == 1 {
		c.state = map[bool]csvState{true: afterQuote, false: inQuotes}[c.state == inQuotes]
	}
}

// parse takes the fields out of a line.
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

// checkPlain rejects quotes where they mean nothing.
func (c *csvReader) checkPlain(value []byte) error {
	switch {
	case !c.quotes:
	case c.state == afterQuote && len(value) > 0:
		return reject("bad_quote", "%sa quoted field goes on after its closing quote; inside a field a quote is written twice", c.where())
	case bytes.IndexByte(value, '"') >= 0:
		return reject("bad_quote", "%sa quote in a field that is not quoted; write the field in quotes and the quote in it twice", c.where())
	}
	return nil
}

// where says the line, when it is known.
func (c *csvReader) where() string {
	if c.line <= 0 {
		return ""
	}
	return fmt.Sprintf("line %d: ", c.line)
}
