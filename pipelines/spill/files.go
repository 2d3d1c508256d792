package spill

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"github.com/sluiceml/sluice/pipelines/rows"
)

// maxOpenSpills bounds how many spill files a Files keeps open.
const maxOpenSpills = 256

// Files reads single rows from spill files.
type Files struct {
	work string
	open map[ID]*os.File
	row  []byte
}

// NewFiles returns a reader of the spill files of a work folder. The caller must close it.
func NewFiles(work string) *Files {
	return &Files{work: work, open: map[ID]*os.File{}}
}

// file returns the spill file with an ID, opening it if necessary.
func (s *Files) file(id ID) (*os.File, error) {
	f, ok := s.open[id]
	if ok {
		return f, nil
	}
	if len(s.open) == maxOpenSpills {
		s.Close()
	}
	f, err := os.Open(Path(s.work, id))
	if err != nil {
		return nil, fmt.Errorf("read a spill file: %w", err)
	}
	s.open[id] = f
	return f, nil
}

// Record returns a row's JSON and its origin.
func (s *Files) Record(m Mark) (from rows.Origin, text []byte, err error) {
	f, err := s.file(m.ID)
	if err != nil {
		return from, nil, err
	}
	whole := io.NewSectionReader(f, int64(m.Offset), int64(spillHead+m.Size+spillTail+math.MaxUint16))
	r := recordReader{r: bufio.NewReaderSize(whole, spillHead+int(m.Size)+512), left: whole.Size()}
	if _, err := r.next(); err != nil {
		return from, nil, fmt.Errorf("read the spill file %s at %d: %w", f.Name(), m.Offset, err)
	}
	return r.from, r.text, nil
}

// Read reads into text the JSON of the row at an offset; its length must be that of text.
func (s *Files) Read(id ID, offset uint64, text []byte) error {
	f, err := s.file(id)
	if err != nil {
		return err
	}
	end := spillHead + len(text)
	s.row = slices.Grow(s.row[:0], end+4)[:end+4]
	_, err = f.ReadAt(s.row, int64(offset))
	if err == nil && (binary.BigEndian.Uint32(s.row) != uint32(len(text)) || checksum(s.row[:end], nil) != binary.BigEndian.Uint32(s.row[end:])) {
		err = errDamaged
	}
	if err != nil {
		return fmt.Errorf("read the spill file %s at %d: %w", f.Name(), offset, err)
	}
	copy(text, s.row[spillHead:])
	return nil
}

// Close closes the open files.
func (s *Files) Close() {
	for id, f := range s.open {
		f.Close()
		delete(s.open, id)
	}
}

// CreateSynced creates a file, writes it through a buffer, and syncs it to disk.
func CreateSynced(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(f, 256<<10)
	return errors.Join(write(out), out.Flush(), f.Sync(), f.Close())
}

// WriteJSON writes a value to a file as indented JSON, and syncs it to disk.
func WriteJSON(path string, v any) error {
	return CreateSynced(path, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(v)
	})
}
