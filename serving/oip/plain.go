package oip

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// A request as clients write it is read here, in one pass: reading it with encoding/json takes longer than all else that is done with a small
// one. What is not written plainly, such as one with an escape, a field twice or one that is not known, is left to encoding/json, which decides
// what it means, or what is wrong with it.

// plainRequest reads the JSON of a request, which is UTF-8. It is false if that is not plain, or has more than it may have.
func plainRequest(head []byte) (wire requestJSON, ok bool) {
	if bytes.IndexByte(head, '\\') >= 0 {
		return wire, false
	}
	p := plain{rest: head}
	ok = p.object([]string{"id", "parameters", "inputs", "outputs"}, func(field string) bool {
		switch field {
		case "id":
			return p.text(&wire.ID)
		case "parameters":
			return p.decode(&wire.Parameters)
		case "inputs":
			wire.Inputs = []tensorJSON{}
			return p.list(func() bool {
				wire.Inputs = append(wire.Inputs, tensorJSON{})
				return len(wire.Inputs) <= MaxTensors && p.tensor(&wire.Inputs[len(wire.Inputs)-1])
			})
		}
		wire.Outputs = []RequestedOutput{}
		return p.list(func() bool {
			wire.Outputs = append(wire.Outputs, RequestedOutput{})
			return len(wire.Outputs) <= MaxTensors && p.decode(&wire.Outputs[len(wire.Outputs)-1])
		})
	})
	p.space()
	return wire, ok && len(p.rest) == 0
}

// maxDepth bounds how deep what is plain is nested.
const maxDepth = 32

// plain is what is left to read. Its methods are false where that is not plain JSON, or not what they read.
type plain struct {
	rest  []byte
	depth int
}

func (p *plain) tensor(t *tensorJSON) bool {
	return p.object([]string{"name", "shape", "datatype", "parameters", "data"}, func(field string) bool {
		switch field {
		case "name":
			return p.text(&t.Name)
		case "shape":
			t.Shape = dimensions{}
			return p.list(func() bool {
				raw, ok := p.value()
				d, err := strconv.ParseInt(string(raw), 10, 64)
				t.Shape = append(t.Shape, d)
				return ok && err == nil && len(t.Shape) <= MaxDimensions
			})
		case "datatype":
			return p.text((*string)(&t.Datatype))
		case "parameters":
			return p.decode(&t.Parameters)
		}
		raw, ok := p.value()
		t.Data = raw
		return ok
	})
}

func (p *plain) space() {
	for len(p.rest) > 0 && p.rest[0] <= ' ' && strings.IndexByte(" \t\r\n", p.rest[0]) >= 0 {
		p.rest = p.rest[1:]
	}
}

// take reads a character, after white space.
func (p *plain) take(c byte) bool {
	p.space()
	if len(p.rest) == 0 || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

// object reads an object that has no other fields than these, each at most once.
func (p *plain) object(fields []string, read func(field string) bool) bool {
	seen := 0
	return p.between('{', '}', func() bool {
		key, ok := p.quoted()
		if !ok || !p.take(':') {
			return false
		}
		for i, field := range fields {
			if string(key) == field && seen&(1<<i) == 0 {
				seen |= 1 << i
				return read(field)
			}
		}
		return false
	})
}

// list reads an array.
func (p *plain) list(read func() bool) bool { return p.between('[', ']', read) }

// between reads what there is between brackets, and commas between that.
func (p *plain) between(opening, closing byte, read func() bool) bool {
	if p.depth++; p.depth > maxDepth || !p.take(opening) {
		return false
	}
	defer func() { p.depth-- }()
	if p.take(closing) {
		return true
	}
	for read() {
		if !p.take(',') {
			return p.take(closing)
		}
	}
	return false
}

func (p *plain) text(to *string) bool {
	raw, ok := p.quoted()
	*to = string(raw)
	return ok
}

// quoted reads a text; there are no escapes.
func (p *plain) quoted() ([]byte, bool) {
	if !p.take('"') {
		return nil, false
	}
	for i, c := range p.rest {
		switch {
		case c == '"':
			text := p.rest[:i]
			p.rest = p.rest[i+1:]
			return text, true
		case c < ' ':
			return nil, false
		}
	}
	return nil, false
}

// decode reads a value as encoding/json does.
func (p *plain) decode(to any) bool {
	raw, ok := p.value()
	return ok && json.Unmarshal(raw, to) == nil
}

// value reads any value, and returns its JSON.
func (p *plain) value() ([]byte, bool) {
	p.space()
	all := p.rest
	if len(all) == 0 {
		return nil, false
	}
	ok := false
	switch c := all[0]; {
	case c == '"':
		_, ok = p.quoted()
	case c == '[':
		ok = p.list(func() bool { _, ok := p.value(); return ok })
	case c == '{':
		ok = p.between('{', '}', func() bool {
			_, isKey := p.quoted()
			if !isKey || !p.take(':') {
				return false
			}
			_, ok := p.value()
			return ok
		})
	case c == '-' || '0' <= c && c <= '9':
		n := number(all)
		p.rest, ok = all[n:], n > 0
	default:
		ok = p.word("true") || p.word("false") || p.word("null")
	}
	return all[:len(all)-len(p.rest)], ok
}

func (p *plain) word(word string) bool {
	isWord := bytes.HasPrefix(p.rest, []byte(word))
	if isWord {
		p.rest = p.rest[len(word):]
	}
	return isWord
}

// number is how long the number is that JSON begins with; 0 for none.
func number(raw []byte) (n int) {
	if raw[0] == '-' {
		n++
	}
	whole := digits(raw[n:])
	if whole == 0 || whole > 1 && raw[n] == '0' {
		return 0
	}
	n += whole
	if n < len(raw) && raw[n] == '.' {
		part := digits(raw[n+1:])
		if part == 0 {
			return 0
		}
		n += 1 + part
	}
	if n < len(raw) && raw[n]|' ' == 'e' {
		if n++; n < len(raw) && (raw[n] == '+' || raw[n] == '-') {
			n++
		}
		power := digits(raw[n:])
		if power == 0 {
			return 0
		}
		n += power
	}
	return n
}

// digits is how many digits JSON begins with.
func digits(raw []byte) (n int) {
	for n < len(raw) && '0' <= raw[n] && raw[n] <= '9' {
		n++
	}
	return n
}
