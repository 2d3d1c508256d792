package spill

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/sluiceml/sluice/pipelines/rows"
)

// Path returns the path of the file that a segment writes the rows of one unit to.
func Path(work string, id ID) string {
	return filepath.Join(work, "spill", fmt.Sprintf("%d-%d", id.Segment, id.Unit))
}

// File is a file of rows between two segments. A row consists of the length of its JSON (4 bytes), the JSON, a checksum of these (4), the
// length of the origin's name (2), the name, the origin's offset (8), and a checksum of what follows the first checksum (4); numbers are
// big endian.
type File struct {
	file *os.File
	out  *bufio.Writer
	at   uint64
	rest []byte // buffer for the parts of a row other than its JSON
}

// Create creates a spill file.
func Create(path string) (*File, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("create a spill file: %w", err)
	}
	return &File{file: f, out: bufio.NewWriterSize(f, 64<<10)}, nil
}

// The number of bytes before a row's JSON, and after it, without the origin's name.
const (
	spillHead = 4
	spillTail = 4 + 2 + 8 + 4
)

// castagnoli is for CRC-32C, which processors support in hardware, so checking the rows costs little.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errDamaged is the error for data that was read back differently from how it was written. The step is retried.
var errDamaged = errors.New("the checksum differs from the one that was written: the disk or the memory of this machine is faulty")

// Add appends a row and returns its offset.
func (s *File) Add(from rows.Origin, text []byte) (offset uint64, err error) {
	s.rest = binary.BigEndian.AppendUint32(s.rest[:0], uint32(len(text)))
	_, _ = s.out.Write(s.rest) // an error is sticky: the last write returns it
	_, _ = s.out.Write(text)
	s.rest = binary.BigEndian.AppendUint32(s.rest[:0], checksum(s.rest, text))
	s.rest = binary.BigEndian.AppendUint16(s.rest, uint16(len(from.Name)))
	s.rest = append(s.rest, from.Name...)
	s.rest = binary.BigEndian.AppendUint64(s.rest, uint64(from.Offset))
	s.rest = binary.BigEndian.AppendUint32(s.rest, checksum(s.rest, nil))
	if _, err = s.out.Write(s.rest); err != nil {
		return 0, fmt.Errorf("write a spill file: %w", err)
	}
	offset = s.at
	s.at += uint64(spillHead + len(text) + len(s.rest))
	return offset, nil
}

// checksum returns the checksum of the concatenation of head and text.
func checksum(head, text []byte) uint32 {
	return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, text)
}

// Take appends rows in the format of a spill file.
func (s *File) Take(rows io.Reader) error {
	n, err := io.Copy(s.out, rows)
	s.at += uint64(n)
	if err != nil {
		return fmt.Errorf("write a spill file: %w", err)
	}
	return nil
}

// Size returns the length of the content.
func (s *File) Size() uint64 { return s.at }

// Name returns the path.
func (s *File) Name() string { return s.file.Name() }

// Flush writes buffered data to the file.
func (s *File) Flush() error { return s.out.Flush() }

// Close writes buffered data and closes the file.
func (s *File) Close() error {
	if err := errors.Join(s.out.Flush(), s.file.Close()); err != nil {
		return fmt.Errorf("write a spill file: %w", err)
	}
	return nil
}

// Read calls yield for the rows at the given offsets, which must be ascending. The text is valid until yield returns.
func Read(path string, offsets []uint64, yield func(offset uint64, from rows.Origin, text []byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read a spill file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("read a spill file: %w", err)
	}
	r := recordReader{r: bufio.NewReaderSize(f, 256<<10), left: info.Size()}
	at := uint64(0)
	for _, offset := range offsets {
		if err := r.skip(offset - at); err != nil {
			return fmt.Errorf("read the spill file %s at %d: %w", path, offset, err)
		}
		n, err := r.next()
		if err != nil {
			return fmt.Errorf("read the spill file %s at %d: %w", path, offset, err)
		}
		at = offset + n
		if err := yield(offset, r.from, r.text); err != nil {
			return err
		}
	}
	return nil
}

// recordReader reads the rows of a spill file. Rows of the same source file are stored together, so the origin's name rarely changes.
type recordReader struct {
	r    *bufio.Reader
	left int64 // bytes left in the file
	from rows.Origin
	text []byte // valid until the next row is read
	rest []byte
}

// next reads a row and returns its length in the spill file.
func (r *recordReader) next() (n uint64, err error) {
	if r.rest, err = r.bytes(r.rest, spillHead); err != nil {
		return 0, err
	}
	if r.text, err = r.bytes(r.text, int(binary.BigEndian.Uint32(r.rest))); err != nil {
		return 0, err
	}
	sum := checksum(r.rest, r.text)
	if r.rest, err = r.bytes(r.rest, 6); err != nil {
		return 0, err
	}
	if sum != binary.BigEndian.Uint32(r.rest) {
		return 0, errDamaged
	}
	head := [6]byte(r.rest)
	if r.rest, err = r.bytes(r.rest, int(binary.BigEndian.Uint16(r.rest[4:]))+8+4); err != nil {
		return 0, err
	}
	size := len(r.rest) - 4
	if checksum(head[:], r.rest[:size]) != binary.BigEndian.Uint32(r.rest[size:]) {
		return 0, errDamaged
	}
	name, offset := r.rest[:size-8], r.rest[size-8:size]
	if r.from.Name != string(name) {
		r.from.Name = string(name)
	}
	r.from.Offset = int64(binary.BigEndian.Uint64(offset))
	return uint64(spillHead + len(r.text) + spillTail + len(name)), nil
}

// bytes reads n bytes into b, growing it if necessary.
func (r *recordReader) bytes(b []byte, n int) ([]byte, error) {
	if r.left -= int64(n); r.left < 0 { // truncated file or corrupt length: do not allocate
		return b, io.ErrUnexpectedEOF
	}
	b = slices.Grow(b[:0], n)[:n]
	_, err := io.ReadFull(r.r, b)
	return b, err
}

// skip skips n bytes.
func (r *recordReader) skip(n uint64) error {
	skipped, err := r.r.Discard(int(n))
	r.left -= int64(skipped)
	return err
}
