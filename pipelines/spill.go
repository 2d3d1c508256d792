package pipelines

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
)

// origin is where a row was read.
type origin struct {
	name   string // of the source file
	offset int64  // of the row's first byte in it
}

// spillPath names the file that a segment writes one unit's rows to.
func spillPath(work string, segment uint16, unit uint32) string {
	return filepath.Join(work, "spill", strconv.Itoa(int(segment))+"-"+strconv.FormatUint(uint64(unit), 10))
}

// spill is a file of rows between two segments. A row is: length of the JSON (4 bytes), JSON, length of the origin's name (2), name,
// origin's offset (8); numbers in big endian.
type spill struct {
	file *os.File
	out  *bufio.Writer
	at   uint64
}

func createSpill(path string) (*spill, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("create a spill file: %w", err)
	}
	return &spill{file: f, out: bufio.NewWriterSize(f, 64<<10)}, nil
}

// spillHead is what lies between the offset of a row and its JSON.
const spillHead = 4

// add appends a row and returns its offset.
func (s *spill) add(from origin, text []byte) (offset uint64, err error) {
	var b [512]byte
	_, _ = s.out.Write(binary.BigEndian.AppendUint32(b[:0], uint32(len(text)))) // an error stays with the writer and comes with the last
	_, _ = s.out.Write(text)
	tail := binary.BigEndian.AppendUint16(b[:0], uint16(len(from.name)))
	tail = append(tail, from.name...)
	tail = binary.BigEndian.AppendUint64(tail, uint64(from.offset))
	if _, err = s.out.Write(tail); err != nil {
		return 0, fmt.Errorf("write a spill file: %w", err)
	}
	offset = s.at
	s.at += uint64(spillHead + len(text) + len(tail))
	return offset, nil
}

// take appends rows as another spill file has them.
func (s *spill) take(rows io.Reader) error {
	n, err := io.Copy(s.out, rows)
	s.at += uint64(n)
	if err != nil {
		return fmt.Errorf("write a spill file: %w", err)
	}
	return nil
}

func (s *spill) close() error {
	if err := errors.Join(s.out.Flush(), s.file.Close()); err != nil {
		return fmt.Errorf("write a spill file: %w", err)
	}
	return nil
}

// readSpill calls yield for the rows at these record offsets, which are sorted.
func readSpill(path string, offsets []uint64, yield func(from origin, text []byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read a spill file: %w", err)
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 256<<10)
	at := uint64(0)
	for _, offset := range offsets {
		if _, err := io.CopyN(io.Discard, r, int64(offset-at)); err != nil {
			return fmt.Errorf("read a spill file: %w", err)
		}
		from, text, n, err := readRecord(r)
		if err != nil {
			return fmt.Errorf("read a spill file: %w", err)
		}
		at = offset + n
		if err := yield(from, text); err != nil {
			return err
		}
	}
	return nil
}

func readRecord(r io.Reader) (from origin, text []byte, n uint64, err error) {
	var head [8]byte
	if _, err = io.ReadFull(r, head[:spillHead]); err != nil {
		return from, nil, 0, err
	}
	text = make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err = io.ReadFull(r, text); err != nil {
		return from, nil, 0, err
	}
	if _, err = io.ReadFull(r, head[:2]); err != nil {
		return from, nil, 0, err
	}
	name := make([]byte, binary.BigEndian.Uint16(head[:]))
	if _, err = io.ReadFull(r, name); err != nil {
		return from, nil, 0, err
	}
	if _, err = io.ReadFull(r, head[:]); err != nil {
		return from, nil, 0, err
	}
	from = origin{name: string(name), offset: int64(binary.BigEndian.Uint64(head[:]))}
	return from, text, uint64(spillHead + len(text) + 2 + len(name) + 8), nil
}
