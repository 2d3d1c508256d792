package avro

import (
	"bytes"
	"compress/bzip2"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
)

// container reads the framing of an object container file.
type container struct {
	r      Source
	schema []byte
	codec  string
	sync   [16]byte
}

// Source is what a file is read from.
type Source interface {
	io.Reader
	io.ByteReader
}

// maxBlock bounds the size of one block, both in the file and decompressed. Writers make blocks of about 16 KB to 1 MB.
const maxBlock = 64 << 20

// maxWindow bounds the memory that a zstd block can request.
const maxWindow = maxBlock

// openContainer reads the header.
func openContainer(r Source) (*container, error) {
	c := &container{r: r}
	var magic [4]byte
	if _, err := io.ReadFull(r, magic[:]); err != nil {
		return nil, unexpected(err)
	}
	if magic != [4]byte{'O', 'b', 'j', 1} {
		return nil, errors.New("it does not begin like an Avro file")
	}
	for {
		n, err := c.long()
		if err != nil {
			return nil, err
		}
		if n == 0 {
			break
		}
		if n < 0 { // a negative count is followed by the size of the entries, for skipping
			n = -n
			if _, err := c.long(); err != nil {
				return nil, err
			}
		}
		for range n {
			if err := c.entry(); err != nil {
				return nil, err
			}
		}
	}
	_, err := io.ReadFull(r, c.sync[:])
	return c, unexpected(err)
}

// entry reads a key and its value from the header's metadata.
func (c *container) entry() error {
	key, err := c.bytes()
	if err != nil {
		return err
	}
	value, err := c.bytes()
	switch string(key) {
	case "avro.schema":
		c.schema = value
	case "avro.codec":
		c.codec = string(value)
	}
	return err
}

func (c *container) long() (int64, error) {
	n, err := binary.ReadVarint(c.r)
	return n, unexpected(err)
}

func (c *container) bytes() ([]byte, error) {
	n, err := c.long()
	if err != nil {
		return nil, err
	}
	if n < 0 || n > maxBlock {
		return nil, fmt.Errorf("it declares %d bytes, more than the maximum of %d", n, maxBlock)
	}
	var b bytes.Buffer // grows with the data that is there, not with the declared size
	_, err = io.CopyN(&b, c.r, n)
	return b.Bytes(), unexpected(err)
}

// block returns the number of records in the next block and their bytes. At the end of a complete file the error is io.EOF.
func (c *container) block() (count int64, data []byte, err error) {
	if count, err = binary.ReadVarint(c.r); err != nil {
		return 0, nil, err
	}
	if data, err = c.bytes(); err != nil {
		return 0, nil, err
	}
	var sync [16]byte
	if _, err := io.ReadFull(c.r, sync[:]); err != nil {
		return 0, nil, unexpected(err)
	}
	if sync != c.sync || count < 0 {
		return 0, nil, errors.New("a block does not end where it should")
	}
	data, err = c.decompress(data)
	if err == nil && count > int64(len(data)) { // a record without bytes could be repeated any number of times
		err = fmt.Errorf("a block of %d bytes declares %d records", len(data), count)
	}
	return count, data, err
}

func (c *container) decompress(data []byte) ([]byte, error) {
	switch c.codec {
	case "", "null":
		return data, nil
	case "deflate":
		return bounded(flate.NewReader(bytes.NewReader(data)))
	case "bzip2":
		return bounded(bzip2.NewReader(bytes.NewReader(data)))
	case "snappy":
		if len(data) < crc32.Size {
			return nil, io.ErrUnexpectedEOF
		}
		body := data[:len(data)-crc32.Size]
		if n, err := snappy.DecodedLen(body); err != nil || n > maxBlock {
			return nil, fmt.Errorf("a block of %d bytes: %w", n, errors.Join(err, errTooLarge))
		}
		out, err := snappy.Decode(nil, body)
		if err == nil && crc32.ChecksumIEEE(out) != binary.BigEndian.Uint32(data[len(body):]) {
			err = errors.New("a block's checksum is wrong")
		}
		return out, err
	case "zstandard":
		z, err := zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		return bounded(z)
	}
	return nil, fmt.Errorf("its blocks are compressed with %.40q; supported are deflate, snappy, zstandard and bzip2", c.codec)
}

var errTooLarge = fmt.Errorf("a block holds more than %d bytes", maxBlock)

func bounded(r io.Reader) ([]byte, error) {
	out, err := io.ReadAll(io.LimitReader(r, maxBlock+1))
	if err == nil && len(out) > maxBlock {
		err = errTooLarge
	}
	return out, err
}

// unexpected turns io.EOF into io.ErrUnexpectedEOF, where more data must follow.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
