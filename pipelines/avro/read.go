// Package avro reads and writes rows as Avro object container files, version 1.12 of the specification. Files may be malicious: memory use
// is bounded by the data a file contains and by the maximum size of a row, not by the sizes it declares.
package avro

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/sluiceml/sluice/pipelines/columns"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// ErrNoRecords is the error for a file whose schema is not a record.
var ErrNoRecords = errors.New("its schema is not a record")

// Reader reads the records of a file.
type Reader struct {
	file   *container
	schema *schema
	left   int64 // records left in the block
	block  decoder
}

// NewReader reads the header of a file.
func NewReader(r Source) (*Reader, error) {
	c, err := openContainer(r)
	if err != nil {
		return nil, err
	}
	s, err := parseSchema(c.schema)
	if err != nil {
		return nil, fmt.Errorf("its schema: %w", err)
	}
	if s.kind != kindRecord {
		return nil, ErrNoRecords
	}
	return &Reader{file: c, schema: s}, nil
}

// Type returns the type of the records.
func (r *Reader) Type() *columns.Type { return r.schema.rowType() }

// Next returns the next record. If it cannot be a row, rejected is the reason, and row has null for the values that are to blame; it is nil
// if there is nothing to show. At the end of a complete file err is io.EOF; any other err means that
// the file is corrupt, and nothing more can be read.
func (r *Reader) Next() (row rows.Row, rejected, err error) {
	for r.left == 0 {
		count, data, err := r.file.block()
		if err != nil {
			return nil, nil, err
		}
		r.left = count
		r.block = decoder{data: data, empty: maxEmpty + len(data)*emptyPerByte}
	}
	r.left--
	row, rejected = r.block.record(r.schema)
	if r.block.err != nil {
		return nil, nil, fmt.Errorf("a record: %w", r.block.err)
	}
	if r.left == 0 && r.block.at < len(r.block.data) {
		return nil, nil, fmt.Errorf("a block has %d bytes after its last record", len(r.block.data)-r.block.at)
	}
	return row, rejected, nil
}

// Values without bytes can occur any number of times, so a block may have maxEmpty of them, and emptyPerByte more for each of its bytes.
const (
	maxEmpty     = 64 << 10
	emptyPerByte = 16
)

// maxDepth bounds how deeply values nest: types can be recursive.
const maxDepth = 1000

// decoder reads the values of a block.
type decoder struct {
	data  []byte
	at    int
	empty int // how many more values without bytes are allowed
	depth int
	// size is the approximate size of the row so far, as JSON. Once it is too large, the rest of the row is read but not stored.
	size int
	// path are the names of the fields that the current value is in.
	path []string
	// rejected is the reason why the current record cannot be a row.
	rejected error
	// err is set if the data is corrupt; nothing after it can be read.
	err error
}

func (d *decoder) record(s *schema) (row rows.Row, rejected error) {
	d.size, d.rejected, d.path = 0, nil, d.path[:0]
	row, _ = d.value(s).(map[string]any)
	if d.full() {
		d.rejected = cmp.Or(d.rejected, rows.Reject("too_long", "the row has more than %d bytes", rows.MaxSize))
	}
	return row, d.rejected
}

// full reports whether the row exceeds the maximum size.
func (d *decoder) full() bool { return d.size > rows.MaxSize }

func (d *decoder) reject(err error) {
	if d.rejected == nil {
		d.rejected = rows.InColumn(d.path, err)
	}
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf(format, args...)
	}
}

func (d *decoder) long() int64 {
	n, size := binary.Varint(d.data[d.at:])
	if size <= 0 {
		d.fail("a number is cut off, or has more than 64 bits")
		d.at = len(d.data)
		return 0
	}
	d.at += size
	return n
}

// bytes returns the next n bytes, as a part of the block.
func (d *decoder) bytes(n int64) []byte {
	if n < 0 || n > int64(len(d.data)-d.at) {
		d.fail("it declares %d bytes, but the block has only %d more", n, len(d.data)-d.at)
		return nil
	}
	d.at += int(n)
	d.size += int(n) + 2
	return d.data[d.at-int(n) : d.at]
}

func (d *decoder) value(s *schema) (v any) {
	if d.err != nil {
		return nil
	}
	start := d.at
	d.size += 2
	switch s.kind {
	case kindNull:
		d.size += 3
	case kindBool:
		v = d.bool()
	case kindInt, kindLong:
		v = d.whole(s)
	case kindFloat:
		if b := d.bytes(4); b != nil {
			v = float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
		}
	case kindDouble:
		if b := d.bytes(8); b != nil {
			v = math.Float64frombits(binary.LittleEndian.Uint64(b))
		}
	case kindBytes:
		v = d.binary(s, d.bytes(d.long()))
	case kindFixed:
		v = d.binary(s, d.bytes(int64(s.size)))
	case kindString:
		v = d.text(s)
	case kindEnum:
		if i := d.long(); i < 0 || i >= int64(len(s.names)) {
			d.fail("an enum has no symbol %d", i)
		} else {
			v = s.names[i]
			d.size += len(s.names[i])
		}
	default:
		if d.depth++; d.depth > maxDepth {
			d.fail("values are nested more than %d deep", maxDepth)
			return nil
		}
		v = d.parts(s)
		d.depth--
	}
	if d.at == start {
		if d.empty--; d.empty < 0 {
			d.fail("there are too many empty values")
		}
	}
	return v
}

// parts reads a value of a type that consists of others.
func (d *decoder) parts(s *schema) any {
	switch s.kind {
	case kindUnion:
		i := d.long()
		if i < 0 || i >= int64(len(s.parts)) {
			d.fail("a union has no type %d", i)
			return nil
		}
		return d.value(s.parts[i])
	case kindArray:
		list := []any{}
		d.blocks(func() {
			if v := d.value(s.items); !d.full() {
				list = append(list, v)
			}
		})
		return list
	case kindMap:
		object := map[string]any{}
		d.blocks(func() { d.entry(s, object) })
		return object
	default:
		return d.fields(s)
	}
}

func (d *decoder) fields(s *schema) any {
	if d.full() { // the fields must be read, but are not stored
		for _, part := range s.parts {
			d.value(part)
		}
		return nil
	}
	object := make(map[string]any, len(s.names))
	for i, name := range s.names {
		d.size += len(name) + 4
		d.path = append(d.path, name)
		object[name] = d.value(s.parts[i])
		d.path = d.path[:len(d.path)-1]
	}
	return object
}

// entry reads an entry of a map.
func (d *decoder) entry(s *schema, object map[string]any) {
	raw := d.bytes(d.long())
	if d.err != nil {
		return
	}
	v := d.value(s.items)
	if d.full() {
		return
	}
	key := string(raw)
	if _, twice := object[key]; twice {
		d.reject(rows.Reject("repeated_field", "the key %.40q of a map is duplicated", key))
	}
	if !utf8.ValidString(key) {
		d.reject(errEncoding)
	}
	object[key] = v
}

// blocks calls read for each item of an array or map, which is encoded as a sequence of blocks with a count each.
func (d *decoder) blocks(read func()) {
	for d.err == nil {
		n := d.long()
		if n == 0 {
			return
		}
		if n < 0 { // a negative count is followed by the block's size, for skipping
			n = -n
			d.long()
		}
		if n < 0 {
			d.fail("a block of items has no count")
		}
		for ; n > 0 && d.err == nil; n-- {
			read()
		}
	}
}

// checked returns v, or rejects the row if err is not nil.
func (d *decoder) checked(v any, err error) any {
	if err != nil {
		d.reject(err)
		return nil
	}
	return v
}

func (d *decoder) bool() any {
	b := d.bytes(1)
	if b == nil || b[0] > 1 {
		d.fail("a boolean is neither 0 nor 1")
		return nil
	}
	return b[0] == 1
}

// whole reads an integer, which may represent a date or a time.
func (d *decoder) whole(s *schema) any {
	n := d.long()
	if s.kind == kindInt && int64(int32(n)) != n {
		d.fail("an int has more than 32 bits")
		return nil
	}
	d.size += 8
	var v any
	var err error
	switch s.typ.Kind {
	case columns.Date:
		v, err = columns.DateOf(int32(n))
	case columns.Time:
		v, err = columns.TimeText(n, s.typ.Unit)
	case columns.Timestamp:
		v, err = columns.TimeOf(n, s.typ.Unit, s.typ.UTC)
	default:
		return n
	}
	return d.checked(v, err)
}

// binary converts the bytes of a bytes or fixed value.
func (d *decoder) binary(s *schema, raw []byte) any {
	if d.err != nil || d.full() {
		return nil
	}
	var v any = bytes.Clone(raw)
	var err error
	switch s.typ.Kind { //nolint:exhaustive // the others are bytes
	case columns.Decimal:
		v, err = columns.DecimalOf(raw, s.typ.Scale)
	case columns.UUID:
		v, err = columns.UUIDText(raw)
	}
	d.size += 4 * len(raw) / 3
	return d.checked(v, err)
}

var errEncoding = rows.Reject(rows.ReasonEncoding, "a string is not valid UTF-8")

func (d *decoder) text(s *schema) any {
	raw := d.bytes(d.long())
	if d.err != nil || d.full() {
		return nil
	}
	if s.typ.Kind == columns.JSON {
		v, err := rows.DecodeValue(raw)
		if err != nil {
			err = rows.Reject("not_json", "a value of a column of JSON: %v", err)
		}
		return d.checked(v, err)
	}
	if !utf8.Valid(raw) {
		d.reject(errEncoding)
		return nil
	}
	return string(raw)
}
