package answer

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// RowIndex finds the rows of a split by number, in the order of ReadRows, without holding them: it holds 24 bytes for each.
type RowIndex struct {
	shards []*os.File
	rows   []place
}

// place is where a row is.
type place struct {
	offset        int64
	length, shard int32
	line          int32
}

// NewRowIndex reads a split once. Close it after use.
func NewRowIndex(dir, split string) (*RowIndex, error) {
	shards, err := shardsOf(dir, split)
	if err != nil {
		return nil, err
	}
	x := &RowIndex{}
	for _, path := range shards {
		file, err := os.Open(path)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("read the dataset: %w", err), x.Close())
		}
		x.shards = append(x.shards, file)
		if err := x.add(file); err != nil {
			return nil, errors.Join(err, x.Close())
		}
	}
	return x, nil
}

// add finds the rows of the newest shard.
func (x *RowIndex) add(file *os.File) error {
	lines := bufio.NewReaderSize(file, 64<<10)
	var offset int64
	for line := int32(1); ; line++ {
		length := 0
		part, err := lines.ReadSlice('\n')
		length += len(part)
		for errors.Is(err, bufio.ErrBufferFull) && length <= maxRow {
			part, err = lines.ReadSlice('\n')
			length += len(part)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull) || length > maxRow+1:
			return fmt.Errorf("%s:%d: the row is longer than %d bytes", nameOf(file.Name()), line, maxRow)
		case err != nil && !errors.Is(err, io.EOF):
			return fmt.Errorf("%s:%d: %w", nameOf(file.Name()), line, err)
		case length > 0:
			x.rows = append(x.rows, place{offset: offset, length: int32(length), shard: int32(len(x.shards) - 1), line: line}) //nolint:gosec // maxRow bounds it
		}
		if err != nil {
			return nil
		}
		offset += int64(length)
	}
}

// Len is how many rows there are.
func (x *RowIndex) Len() int { return len(x.rows) }

// Row reads one.
func (x *RowIndex) Row(i int) (Row, error) {
	p := x.rows[i]
	file, raw := x.shards[p.shard], make([]byte, p.length)
	var row Row
	_, err := file.ReadAt(raw, p.offset)
	if err == nil {
		err = json.Unmarshal(raw, &row)
	}
	if err != nil {
		return nil, fmt.Errorf("%s:%d: %w", nameOf(file.Name()), p.line, err)
	}
	return row, nil
}

// Close closes the shards.
func (x *RowIndex) Close() error {
	var failed []error
	for _, file := range x.shards {
		failed = append(failed, file.Close())
	}
	return errors.Join(failed...)
}

// nameOf is what errors call a shard.
func nameOf(path string) string {
	return filepath.Join(filepath.Base(filepath.Dir(path)), filepath.Base(path))
}
