package format

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"reflect"
	"unsafe"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/encoding"
	"github.com/parquet-go/parquet-go/format"
)

// repairColumns replaces what the library (v0.32.0, and no later release exists) decodes wrongly, without an error. It offers no way to do
// so, thus the fields of its columns are set: of each file, before anything of it is read. parquet_repair_test.go has files of each kind.
func repairColumns(column *parquet.Column) error {
	for _, child := range column.Columns() {
		if err := repairColumns(child); err != nil {
			return err
		}
	}
	if !column.Leaf() {
		return nil
	}
	if codec := column.Compression(); codec != nil {
		if err := setField(column, "compression", compress.Codec(inPlace{codec})); err != nil {
			return err
		}
	}
	if t := column.Type(); t.Kind() == parquet.Boolean {
		return setField(column, "typ", parquet.Type(booleans{t}))
	}
	return nil
}

// setField sets an unexported field of a column. It fails if a later version of the library has no such field.
func setField[T any](column *parquet.Column, name string, value T) error {
	field := reflect.ValueOf(column).Elem().FieldByName(name)
	if !field.IsValid() || field.Type() != reflect.TypeFor[T]() {
		return fmt.Errorf("parquet-go's columns have no field %s of type %s", name, reflect.TypeFor[T]())
	}
	*(*T)(unsafe.Pointer(field.UnsafeAddr())) = value
	return nil
}

// inPlace decompresses into the buffer that it is given. The library drops a page for which its codec has allocated another buffer of the
// same length, and reads whatever was in the first one: most pages of LZ4_RAW that do not shrink to a third
// (https://github.com/parquet-go/parquet-go/issues/608).
type inPlace struct{ compress.Codec }

// Decode implements compress.Codec. The length of dst is that of the page by its header.
func (c inPlace) Decode(dst, src []byte) ([]byte, error) {
	decoded, err := c.Codec.Decode(dst, src)
	if err == nil && len(decoded) <= len(dst) {
		copy(dst, decoded)
	}
	return decoded, err
}

// booleans is the type of a column of booleans. The library's own sets only the first of the eight bits of each byte of a run, and extends
// each run to a whole number of bytes.
type booleans struct{ parquet.Type }

// EstimateDecodeSize implements parquet.Type: the length of the buffer that Decode gets.
func (booleans) EstimateDecodeSize(n int, _ []byte, _ encoding.Encoding) int { return (n + 7) / 8 }

// Decode implements parquet.Type.
func (t booleans) Decode(dst encoding.Values, src []byte, by encoding.Encoding) (encoding.Values, error) {
	if by.Encoding() != format.RLE {
		return t.Type.Decode(dst, src, by)
	}
	bits := dst.Boolean()
	clear(bits)
	return encoding.BooleanValues(bits), decodeBits(bits, src)
}

// errRuns is the error for runs that end before all values are there.
var errRuns = errors.New("the runs of a column of booleans are corrupt or truncated")

// decodeBits decodes the length and the runs of https://parquet.apache.org/docs/file-format/data-pages/encodings/ (RLE = 3) of values of one
// bit into bits, which are all zero. Values beyond the bits, with which the last group of packed bits is filled up, are ignored.
func decodeBits(bits, src []byte) error {
	if len(bits) == 0 {
		return nil
	}
	if len(src) < 4 || uint64(len(src)-4) < uint64(binary.LittleEndian.Uint32(src)) {
		return fmt.Errorf("%w: %w", errRuns, io.ErrUnexpectedEOF)
	}
	src = src[4:][:binary.LittleEndian.Uint32(src)]
	at, end := uint64(0), uint64(len(bits))*8
	for at < end && len(src) > 0 {
		header, n := binary.Uvarint(src)
		if n <= 0 || len(src) == n {
			return errRuns
		}
		src = src[n:]
		count, packed := header>>1, src[:1]
		if header&1 == 1 { // groups of 8 bits
			if count > uint64(len(src)) {
				return errRuns
			}
			packed, count = src[:count], 8*count
		}
		for i := range min(count, end-at) {
			bit := packed[0] // of a run, the one value
			if header&1 == 1 {
				bit = packed[i/8] >> (i % 8)
			}
			bits[(at+i)/8] |= bit & 1 << ((at + i) % 8)
		}
		at, src = at+min(count, end-at), src[len(packed):]
	}
	if end-at >= 8 {
		return errRuns
	}
	return nil
}
