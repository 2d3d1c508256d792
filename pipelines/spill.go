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

// spill is a file of rows between two segments. A row is: length of the origin's name (2 bytes), name, origin's offset (8),
// length of the JSON (4), JSON; numbers in big endian.
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

// add appends a row. It returns the offset of the record and that of the row's JSON.
func (s *spill) add(from origin, text []byte) (record, json uint64, err error) {
	record = s.at
	head := binary.BigEndian.AppendUint16(nil, uint16(len(from.name)))
	head = append(head, from.name...)
	head = binary.BigEndian.AppendUint64(head, uint64(from.offset))
	head = binary.BigEndian.AppendUint32(head, uint32(len(text)))
	_, _ = s.out.Write(head) // an error stays with the writer and comes with the next
	if _, err = s.out.Write(text); err != nil {
		return 0, 0, fmt.Errorf("write a spill file: %w", err)
	}
	json = record + uint64(len(head))
	s.at = json + uint64(len(text))
	return record, json, nil
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
	var head [12]byte
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
	text = make([]byte, binary.BigEndian.Uint32(head[8:]))
	if _, err = io.ReadFull(r, text); err != nil {
		return from, nil, 0, err
	}
	from = origin{name: string(name), offset: int64(binary.BigEndian.Uint64(head[:]))}
	return from, text, uint64(2 + len(name) + 12 + len(text)), nil
}
