package format

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// compressions are the forms of compression that are read, known by the first bytes of a file and never by its name.
var compressions = []struct {
	name string
	is   func(head []byte) bool
	open func(io.Reader) (io.Reader, func(), error)
}{
	{"gzip", func(head []byte) bool { return bytes.HasPrefix(head, []byte{0x1f, 0x8b, 8}) }, openGzip},
	{"zstd", func(head []byte) bool { return bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}) }, openZstd},
	{"bzip2", isBzip2, openBzip2},
}

// maxMagic is the most bytes that tell how a file is compressed.
const maxMagic = 10

// isBzip2 looks for the mark of a block, or of the end, too: what is before it could be text.
func isBzip2(head []byte) bool {
	return len(head) == maxMagic && bytes.HasPrefix(head, []byte("BZh")) && '1' <= head[3] && head[3] <= '9' &&
		(string(head[4:]) == "1AY&SY" || string(head[4:]) == "\x17rE8P\x90")
}

// maxZstdWindow bounds what one zstd stream may ask to be held in memory; `zstd --long` asks for 128 MiB.
const maxZstdWindow = 128 << 20

func openGzip(r io.Reader) (io.Reader, func(), error) {
	z, err := gzip.NewReader(r) // reads all members
	if err != nil {
		return nil, nil, err
	}
	return z, func() { z.Close() }, nil //nolint:errcheck // it was only read
}

func openZstd(r io.Reader) (io.Reader, func(), error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxZstdWindow))
	if err != nil {
		return nil, nil, err
	}
	return z, z.Close, nil
}

func openBzip2(r io.Reader) (io.Reader, func(), error) { return bzip2.NewReader(r), func() {}, nil }

// damage is the error of a file whose compressed data is broken or cut off: the rest of its content cannot be known.
type damage struct{ message string }

func (d *damage) Error() string { return d.message }

// content is what is in a file, decompressed.
type content struct {
	raw    *countedReader
	reader io.Reader
	// compression is empty when the file is as it was written.
	compression string
	close       func()
}

// openContent reads raw, the bytes of a file from its start, and decompresses them if they are compressed.
func openContent(raw io.Reader) (*content, error) {
	c := &content{raw: &countedReader{r: raw}, close: func() {}}
	buffered := bufio.NewReaderSize(c.raw, 256<<10)
	head, err := buffered.Peek(maxMagic)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	c.reader = buffered
	for _, form := range compressions {
		if !form.is(head) {
			continue
		}
		c.compression = form.name
		if c.reader, c.close, err = form.open(buffered); err != nil {
			c.close = func() {}
			c.reader = failed{err}
		}
		break
	}
	return c, nil
}

// Read tells data that is broken (a damage) from a disk or a network that fails.
func (c *content) Read(b []byte) (int, error) {
	n, err := c.reader.Read(b)
	switch {
	case c.raw.err != nil:
		return n, c.raw.err
	case err == nil || c.compression == "":
		return n, err
	case errors.Is(err, io.EOF):
		return n, io.EOF
	case errors.Is(err, io.ErrUnexpectedEOF):
		return n, &damage{fmt.Sprintf("the %s data ends unexpectedly after %d bytes: the file is truncated", c.compression, c.raw.n)}
	}
	return n, &damage{fmt.Sprintf("the %s data is corrupt before byte %d of the file: %v", c.compression, c.raw.n, err)}
}

// countedReader counts what is read and remembers an error other than the end.
type countedReader struct {
	r   io.Reader
	n   int64
	err error
}

func (c *countedReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	return n, err
}

// failed is a reader that cannot.
type failed struct{ err error }

func (f failed) Read([]byte) (int, error) { return 0, f.err }
