package spill

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/pipelines/rows"
)

// DeadRow is a rejected row in the dead letter: one JSON object per line.
type DeadRow struct {
	// Element is the row as it reached the transform, or its text if it is not a JSON object.
	Element any `json:"element"`
	// Transform is the name of the transform that rejected the row, Reason one of a few words, and Message the details.
	Transform string `json:"transform"`
	Reason    string `json:"reason"`
	Message   string `json:"message"`
	// Source is the file the row was read from, relative to the input's folder, and Offset the row's first byte there.
	Source string `json:"source"`
	Offset int64  `json:"offset"`
}

// DeadPath returns the path of the file for the rows that a segment rejects in a unit. The paths sort like (segment, unit).
func DeadPath(work string, id ID) string {
	return filepath.Join(work, "dead", fmt.Sprintf("%03d-%010d", id.Segment, id.Unit))
}

// DeadLetter collects the rejected rows of one unit. If there are none, no file is created.
type DeadLetter struct {
	// Path is the path of the file, and At the length of its content.
	Path string
	At   int64
	file *os.File
	out  *bufio.Writer
	// Unordered says that rows are added in arbitrary order. loose has the rows that were added since then and are not sorted yet.
	Unordered bool
	loose     []deadPlace
}

// deadPlace says where a rejected row was read, and where it is in the file.
type deadPlace struct {
	from     rows.Origin
	at, size int64
}

// Add appends a row.
func (d *DeadLetter) Add(r DeadRow) error {
	r.Message = rows.Clip(r.Message, rows.MaxMessage)
	element, err := rows.AppendValue(nil, r.Element) // unlike package json, it writes the double 1.0 as such
	if err != nil {
		return fmt.Errorf("write the dead letter: %w", err)
	}
	r.Element = json.RawMessage(element)
	var line bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		return fmt.Errorf("write the dead letter: %w", err)
	}
	if d.Unordered {
		d.loose = append(d.loose, deadPlace{rows.Origin{Name: r.Source, Offset: r.Offset}, d.At, int64(line.Len())})
	}
	return d.Take(&line)
}

// Order sorts the loose rows by where they were read, and those that were made of the same row by their text. Otherwise the order would
// depend on when a program answers, which differs from run to run.
func (d *DeadLetter) Order() error {
	loose := d.loose
	d.loose = nil
	if len(loose) < 2 {
		return nil
	}
	if err := d.Flush(); err != nil {
		return fmt.Errorf("write the dead letter: %w", err)
	}
	f, err := os.OpenFile(d.Path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("order the dead letter: %w", err)
	}
	defer f.Close()
	start := loose[0].at
	sorted, err := os.Create(d.Path + ".order") // removed before the folder's files are merged
	if err != nil {
		return fmt.Errorf("order the dead letter: %w", err)
	}
	defer os.Remove(sorted.Name())
	defer sorted.Close()
	err = copyOrdered(sorted, f, loose)
	if err == nil {
		_, err = io.Copy(io.NewOffsetWriter(f, start), io.NewSectionReader(sorted, 0, d.At-start))
	}
	if err != nil {
		return fmt.Errorf("order the dead letter: %w", err)
	}
	return nil
}

// copyOrdered writes the given rows of a file in sorted order.
func copyOrdered(to io.Writer, from io.ReaderAt, rows []deadPlace) error {
	slices.SortStableFunc(rows, func(a, b deadPlace) int {
		return cmp.Or(strings.Compare(a.from.Name, b.from.Name), cmp.Compare(a.from.Offset, b.from.Offset))
	})
	out := bufio.NewWriterSize(to, 64<<10)
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && rows[n].from == rows[0].from {
			n++
		}
		texts := make([][]byte, n)
		for i, p := range rows[:n] {
			texts[i] = make([]byte, p.size)
			if _, err := from.ReadAt(texts[i], p.at); err != nil {
				return err
			}
		}
		slices.SortFunc(texts, bytes.Compare)
		for _, text := range texts {
			_, _ = out.Write(text) // an error stays with the writer
		}
		rows = rows[n:]
	}
	return out.Flush()
}

// Take appends rows in the format of a dead letter.
func (d *DeadLetter) Take(rows io.Reader) error {
	if d.file == nil {
		f, err := os.Create(d.Path)
		if err != nil {
			return fmt.Errorf("create the dead letter: %w", err)
		}
		d.file, d.out = f, bufio.NewWriterSize(f, 16<<10)
	}
	n, err := io.Copy(d.out, rows)
	d.At += n
	if err != nil {
		return fmt.Errorf("write the dead letter: %w", err)
	}
	return nil
}

// Flush writes buffered data to the file.
func (d *DeadLetter) Flush() error {
	if d.file == nil {
		return nil
	}
	return d.out.Flush()
}

// Close writes buffered data and closes the file.
func (d *DeadLetter) Close() error {
	if d.file == nil {
		return nil
	}
	if err := errors.Join(d.out.Flush(), d.file.Close()); err != nil {
		return fmt.Errorf("write the dead letter: %w", err)
	}
	return nil
}

// MergeDeadLetters merges the dead letters of all units, in the order of the input.
func MergeDeadLetters(work, dir string) error {
	parts, err := filepath.Glob(filepath.Join(work, "dead", "*"))
	if err != nil {
		return err
	}
	slices.Sort(parts)
	if err := os.Mkdir(dir, 0o777); err != nil {
		return fmt.Errorf("create the dead letter: %w", err)
	}
	return CreateSynced(filepath.Join(dir, "rejected.jsonl"), func(w io.Writer) error {
		for _, part := range parts {
			if err := copyFile(w, part); err != nil {
				return err
			}
		}
		return nil
	})
}

func copyFile(w io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}
