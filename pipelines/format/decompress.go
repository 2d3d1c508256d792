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

	"github.com/sluiceml/sluice/internal/fault"
)

// compressions are the supported compression formats, recognized by a file's first bytes, never by its name.
var compressions = []struct {
	name string
	is   func(head []byte) bool
	open func(io.Reader) (io.Reader, func(), error)
}{
	{"gzip", func(head []byte) bool { return bytes.HasPrefix(head, []byte{0x1f, 0x8b, 8}) }, openGzip},
	{"zstd", isZstd, openZstd},
	{"bzip2", isBzip2, openBzip2},
}

// compressionOf returns the name of the compression of a file that begins with head, or nothing.
func compressionOf(head []byte) string {
	for _, form := range compressions {
		if form.is(head) {
			return form.name
		}
	}
	return ""
}

// errPacked is the error for a file that is compressed as a whole, in a format that is compressed inside.
func errPacked(file File, format, compression string) error {
	return fault.Errorf(fault.User, "%s is compressed with %s, and a compressed %s file cannot be read"+
		"\nhelp: decompress it first; %[3]s files are compressed inside, by an option of the program that writes them", file.Name, compression, format)
}

// maxMagic is how many bytes are needed to recognize the compression.
const maxMagic = 10

// isZstd recognizes a frame of data, or one to skip, with which parallel and seekable writers begin: 0x184D2A50 to 0x184D2A5F.
func isZstd(head []byte) bool {
	return bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}) || len(head) >= 4 && head[0]>>4 == 5 && bytes.HasPrefix(head[1:], []byte{0x2a, 0x4d, 0x18})
}

// isBzip2 also checks for the marker of a block or of the end: the header alone could be text.
func isBzip2(head []byte) bool {
	return len(head) == maxMagic && bytes.HasPrefix(head, []byte("BZh")) && '1' <= head[3] && head[3] <= '9' &&
		(string(head[4:]) == "1AY&SY" || string(head[4:]) == "\x17rE8P\x90")
}

// maxZstdWindow bounds the memory that a zstd stream can request; `zstd --long` requests 128 MiB.
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

// damage is the error for a file whose compressed data is corrupt or truncated: the rest of its content is lost.
type damage struct{ message string }

func (d *damage) Error() string { return d.message }

// content is the decompressed content of a file.
type content struct {
	raw    *countedReader
	reader io.Reader
	// compression is empty if the file is not compressed.
	compression string
	close       func()
}

// openContent reads raw, which is a file from its start, and decompresses it if it is compressed.
func openContent(raw io.Reader) (*content, error) {
	c := &content{raw: &countedReader{r: raw}, close: func() {}}
	buffered := bufio.NewReaderSize(c.raw, 256<<10)
	head, err := buffered.Peek(maxMagic)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	c.reader = buffered
	for kind, magic := range map[string]string{"an xz": "\xfd7zXZ\x00", "a zip": "PK\x03\x04", "a 7-Zip": "7z\xbc\xaf\x27\x1c"} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return nil, errArchive(kind)
		}
	}
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
	content := bufio.NewReaderSize(c.reader, 512)
	header, err := content.Peek(tarMark + len("ustar"))
	switch {
	case err != nil: // it is a shorter file
		c.reader = io.MultiReader(bytes.NewReader(header), failed{err})
	case bytes.HasSuffix(header, []byte("ustar")):
		c.close()
		return nil, errArchive("a tar")
	default:
		c.reader = content
	}
	return c, nil
}

// tarMark is where a tar archive has its mark.
const tarMark = 257

// errArchive is the error for files that hold others; it has the kind of the archive.
type errArchive string

func (kind errArchive) Error() string {
	return "it is " + string(kind) + " archive, which is not read\nhelp: unpack it first; gzip, zstd and bzip2 files with one file each are read as they are"
}

// Read distinguishes corrupt data, for which it returns a *damage, from errors of the disk or the network.
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

// countedReader counts the bytes read and keeps any error other than io.EOF.
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

// failed is a reader that always returns an error.
type failed struct{ err error }

func (f failed) Read([]byte) (int, error) { return 0, f.err }
