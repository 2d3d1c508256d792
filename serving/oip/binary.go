package oip

import (
	"encoding/binary"
	"fmt"
)

// Binary data are a tensor's elements one after the other, with the lowest byte first. A BOOL is a byte, 0 or 1; an element of BYTES is its
// length, as a UINT32, and its bytes.

// DecodeBinary reads the binary data of n elements into the slice of a datatype. Nothing is allocated before the sizes agree.
func DecodeBinary(datatype Datatype, n int64, raw []byte) (any, error) {
	e, ok := elements[datatype]
	if !ok {
		return nil, unsupported(datatype)
	}
	if want := n * int64(e.size); e.size > 0 && int64(len(raw)) != want {
		return nil, fmt.Errorf("%d elements of %s are %d bytes of binary data, not %d", n, datatype, want, len(raw))
	}
	return e.decode(raw, int(n))
}

// AppendBinary appends the tensor's binary data.
func (t Tensor) AppendBinary(to []byte) ([]byte, error) {
	e, ok := elements[t.Datatype()]
	if !ok {
		return to, fmt.Errorf("tensor %q has elements of type %T, which the protocol does not support", t.Name, t.Data)
	}
	return e.encode(to, t.Data), nil
}

func decodeNumbers[T any](raw []byte, n int) ([]T, error) {
	out := make([]T, n)
	_, err := binary.Decode(raw, binary.LittleEndian, out)
	return out, err
}

func encodeNumbers[T any](to []byte, data []T) []byte {
	to, err := binary.Append(to, binary.LittleEndian, data)
	if err != nil {
		panic(err) // all types of numbers have a fixed size
	}
	return to
}

func decodeBools(raw []byte, n int) ([]bool, error) {
	out := make([]bool, n)
	for i, v := range raw {
		if v > 1 {
			return nil, fmt.Errorf("element %d of BOOL is the byte %d; it must be 0 or 1", i, v)
		}
		out[i] = v == 1
	}
	return out, nil
}

func encodeBools(to []byte, data []bool) []byte {
	for _, v := range data {
		var b byte
		if v {
			b = 1
		}
		to = append(to, b)
	}
	return to
}

const lengthSize = 4 // of an element of BYTES

func decodeTexts(raw []byte, n int) ([]string, error) {
	if len(raw)/lengthSize < n {
		return nil, fmt.Errorf("%d elements of BYTES are at least %d bytes of binary data, not %d", n, n*lengthSize, len(raw))
	}
	out := make([]string, n)
	for i := range out {
		if len(raw) < lengthSize {
			return nil, fmt.Errorf("the binary data end before element %d of %d", i, n)
		}
		length := binary.LittleEndian.Uint32(raw)
		raw = raw[lengthSize:]
		if uint64(length) > uint64(len(raw)) {
			return nil, fmt.Errorf("element %d of BYTES has %d bytes according to its length, but only %d follow", i, length, len(raw))
		}
		out[i], raw = string(raw[:length]), raw[length:]
	}
	if len(raw) > 0 {
		return nil, fmt.Errorf("%d bytes follow the last of %d elements of BYTES", len(raw), n)
	}
	return out, nil
}

func encodeTexts(to []byte, data []string) []byte {
	for _, s := range data {
		to = binary.LittleEndian.AppendUint32(to, uint32(len(s)))
		to = append(to, s...)
	}
	return to
}
