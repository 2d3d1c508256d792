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

// Path names the file that a segment writes one unit's rows to.
func Path(work string, id ID) string {
	return filepath.Join(work, "spill", fmt.Sprintf("%d-%d", id.Segment, id.Unit))
}

// File is a file of rows between two segments. A row is: length of the JSON (4 bytes), JSON, checksum of these (4), length of the origin's
// name (2), name, origin's offset (8), checksum of what comes after the JSON (4); numbers in big endian.
type File struct {
	file *os.File
	out  *bufio.Writer
	at   uint64
	rest []byte // of a row, without its JSON
}

// Create creates a spill file.
func Create(path string) (*File, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("create a spill file: %w", err)
	}
	return &File{file: f, out: bufio.NewWriterSize(f, 64<<10)}, nil
}

// What lies between the offset of a row and its JSON, and what comes after that beside the origin's name.
const (
	spillHead = 4
	spillTail = 4 + 2 + 8 + 4
)

// castagnoli is CRC-32C, which processors know: rows on the disk are checked when they are read, and cost hardly more for it.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errDamaged is the error of data that is not as it was written: the step is done again.
var errDamaged = errors.New("the checksum is another than when it was written: the disk or the memory of this machine is at fault")

// Add appends a row and returns its offset.
func (s *File) Add(from rows.Origin, text []byte) (offset uint64, err error) {
	s.rest = binary.BigEndian.AppendUint32(s.rest[:0], uint32(len(text)))
	_, _ = s.out.Write(s.rest) // an error stays with the writer and comes with the last
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

// checksum is that of head and text together.
func checksum(head, text []byte) uint32 {
	return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, text)
}

// Take appends rows as another spill file has them.
func (s *File) Take(rows io.Reader) error {
	n, err := io.Copy(s.out, rows)
	s.at += uint64(n)
	if err != nil {
		return fmt.Errorf("write a spill file: %w", err)
	}
	return nil
}

// Size is the length of what is in it.
func (s *File) Size() uint64 { return s.at }

// Name is its path.
func (s *File) Name() string { return s.file.Name() }

// Flush writes what is in the buffer.
func (s *File) Flush() error { return s.out.Flush() }

// Close writes what is in the buffer, and closes the file.
func (s *File) Close() error {
	if err := errors.Join(s.out.Flush(), s.file.Close()); err != nil {
		return fmt.Errorf("write a spill file: %w", err)
	}
	return nil
}

// Read calls yield for the rows at these offsets, which are sorted. The text is valid until yield returns.
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

// recordReader reads the rows of a spill file. One file's rows lie together, so that the name of the origin is mostly the last one's.
type recordReader struct {
	r    *bufio.Reader
	left int64 // bytes that can still be read
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

// bytes reads n bytes into b, or into a larger one.
func (r *recordReader) bytes(b []byte, n int) ([]byte, error) {
	if r.left -= int64(n); r.left < 0 { // the file is cut off, or the length is none: do not make room for it
		return b, io.ErrUnexpectedEOF
	}
	b = slices.Grow(b[:0], n)[:n]
	_, err := io.ReadFull(r.r, b)
	return b, err
}

// skip passes over n bytes.
func (r *recordReader) skip(n uint64) error {
	skipped, err := r.r.Discard(int(n))
	r.left -= int64(skipped)
	return err
}
