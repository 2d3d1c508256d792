package pipelines

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/sluiceml/sluice/pipelines/rows"
)

// maxOpenSpills bounds how many spill files one worker has open.
const maxOpenSpills = 256

// spillFiles reads single rows of spill files.
type spillFiles struct {
	work string
	open map[spillID]*os.File
}

func newSpillFiles(work string) *spillFiles {
	return &spillFiles{work: work, open: map[spillID]*os.File{}}
}

// file returns the file that a row lies in.
func (s *spillFiles) file(id spillID) (*os.File, error) {
	f, ok := s.open[id]
	if ok {
		return f, nil
	}
	if len(s.open) == maxOpenSpills {
		s.close()
	}
	f, err := os.Open(spillPath(s.work, id.segment, id.unit))
	if err != nil {
		return nil, fmt.Errorf("read a spill file: %w", err)
	}
	s.open[id] = f
	return f, nil
}

// record returns a row's JSON and where it was read.
func (s *spillFiles) record(m mark) (from rows.Origin, text []byte, err error) {
	f, err := s.file(spillID{m.segment, m.unit})
	if err != nil {
		return from, nil, err
	}
	whole := io.NewSectionReader(f, int64(m.offset), int64(spillHead+m.size+2+math.MaxUint16+8))
	r := recordReader{r: bufio.NewReaderSize(whole, spillHead+int(m.size)+512)}
	if _, err := r.next(); err != nil {
		return from, nil, fmt.Errorf("read a spill file: %w", err)
	}
	return r.from, r.text, nil
}

// read reads the JSON of the row at an offset, which is as long as text.
func (s *spillFiles) read(id spillID, offset uint64, text []byte) error {
	f, err := s.file(id)
	if err != nil {
		return err
	}
	if _, err := f.ReadAt(text, int64(offset)+spillHead); err != nil {
		return fmt.Errorf("read a spill file: %w", err)
	}
	return nil
}

func (s *spillFiles) close() {
	for id, f := range s.open {
		f.Close()
		delete(s.open, id)
	}
}
