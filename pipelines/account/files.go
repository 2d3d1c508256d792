package account

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
)

// FileAccount says what became of the rows of one source file: Read = Kept + Dropped + Rejected.
type FileAccount struct {
	// File is relative to the folder that all files of the input lie in.
	File string `json:"file"`
	// Read counts rows of the file, and the rows beyond the first that were made of one.
	Read int64 `json:"read"`
	Kept int64 `json:"kept"`
	// Dropped and Rejected count by rule and by reason.
	Dropped  map[string]int64 `json:"dropped,omitempty"`
	Rejected map[string]int64 `json:"rejected,omitempty"`
}

// FileCount is what a segment saw of the rows of one source file, in one unit or merged over several.
type FileCount struct {
	File string `json:"file"`
	Read int64  `json:"read,omitempty"`
	// Reached counts, for each node that ends a segment, the rows that reached it minus those that came out of it again.
	Reached  map[int]int64    `json:"reached,omitempty"`
	Dropped  map[string]int64 `json:"dropped,omitempty"`
	Rejected map[string]int64 `json:"rejected,omitempty"`
}

func newFileCount(name string) *FileCount {
	return &FileCount{File: name, Reached: map[int]int64{}, Dropped: map[string]int64{}, Rejected: map[string]int64{}}
}

// Add adds the counts of more rows of the same file.
func (c *FileCount) Add(o *FileCount) {
	c.Read += o.Read
	AddCounts(c.Reached, o.Reached)
	AddCounts(c.Dropped, o.Dropped)
	AddCounts(c.Rejected, o.Rejected)
}

// AddCounts adds the counts of from to to.
func AddCounts[K comparable](to, from map[K]int64) {
	for key, n := range from {
		to[key] += n
	}
}

// FileCounts holds the counts of one unit, which has the rows of a few files. Rows of the same file usually follow each other.
type FileCounts struct {
	all  map[string]*FileCount
	last *FileCount
}

// Of returns the counts of a file, creating them if necessary.
func (c *FileCounts) Of(name string) *FileCount {
	if c.last != nil && c.last.File == name {
		return c.last
	}
	if c.all == nil {
		c.all = map[string]*FileCount{}
	}
	if c.all[name] == nil {
		c.all[name] = newFileCount(name)
	}
	c.last = c.all[name]
	return c.last
}

// Add adds the counts of other rows.
func (c *FileCounts) Add(o FileCounts) {
	for _, f := range o.all {
		c.Of(f.File).Add(f)
	}
}

// Total adds the counts of all files to the counts of the job.
func (c *FileCounts) Total(counts Ledger) {
	for _, f := range c.all {
		counts[[2]string{CountRead, AllRead}] += f.Read
		for rule, n := range f.Dropped {
			counts[[2]string{CountDropped, rule}] += n
		}
		for reason, n := range f.Rejected {
			counts[[2]string{CountRejected, reason}] += n
		}
	}
}

// UnitPath returns the path of the file with a unit's counts.
func UnitPath(work string, segment uint16, unit uint32) string {
	return filepath.Join(work, "account", fmt.Sprintf("%d-%d", segment, unit))
}

// Write writes the counts, sorted by file.
func (c *FileCounts) Write(path string) error {
	err := writeLines(path, func(line func(any) error) error {
		for _, name := range slices.Sorted(maps.Keys(c.all)) {
			if err := line(c.all[name]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("write the account of a unit: %w", err)
	}
	return nil
}

// writeLines creates a file of JSON lines.
func writeLines(path string, write func(line func(any) error) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(f)
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	return errors.Join(write(e.Encode), out.Flush(), f.Close())
}

// FileName is the name, in the work folder, of the file with the accounts of all source files.
const FileName = "account.jsonl"

// maxMerged bounds how many files are open and merged at a time.
const maxMerged = 256

// WriteFiles writes the account of each source file to path. It checks that each adds up, and that together they add up to rows. cuts has
// the names of the cuts by node; rows that reached a cut and did not come out of it were dropped there. Memory: one line for each of up to
// maxMerged files.
func WriteFiles(work, path string, rows spec.Rows, cuts map[int]string) error {
	parts, err := os.ReadDir(filepath.Join(work, "account"))
	if err != nil {
		return err
	}
	paths := make([]string, len(parts))
	for i, part := range parts {
		paths[i] = filepath.Join(work, "account", part.Name())
	}
	for n := 0; len(paths) > maxMerged; n++ {
		merged := filepath.Join(work, "account", "merged-"+strconv.Itoa(n))
		err := writeLines(merged, func(line func(any) error) error {
			return mergeCounts(paths[:maxMerged], func(c *FileCount) error { return line(c) })
		})
		if err != nil {
			return err
		}
		paths = append(paths[maxMerged:], merged)
	}
	var sum spec.Rows
	err = writeLines(path, func(line func(any) error) error {
		return mergeCounts(paths, func(c *FileCount) error {
			a, err := c.settle(cuts, &sum)
			if err != nil {
				return err
			}
			return line(a)
		})
	})
	if err == nil && (sum.Read != rows.Read || sum.Kept != rows.Kept || sum.Dropped != rows.Dropped || sum.Rejected != rows.Rejected) {
		err = fault.Errorf(fault.Infrastructure, "the counts of the files add up to %+v, but the total is %+v; this is a bug in Sluice,"+
			" and the dataset was not written", sum, rows)
	}
	return err
}

// settle turns the counts of a file into its account, and adds it to sum.
func (c *FileCount) settle(cuts map[int]string, sum *spec.Rows) (FileAccount, error) {
	a := FileAccount{File: c.File, Read: c.Read, Dropped: c.Dropped, Rejected: c.Rejected}
	for at, n := range c.Reached {
		if name, isCut := cuts[at]; !isCut {
			a.Kept += n
		} else if n != 0 {
			a.Dropped[name] += n
		}
	}
	dropped, rejected := total(a.Dropped), total(a.Rejected)
	sum.Read += a.Read
	sum.Kept += a.Kept
	sum.Dropped += dropped
	sum.Rejected += rejected
	if a.Read != a.Kept+dropped+rejected {
		return a, fault.Errorf(fault.Infrastructure, "the counts of %s do not add up: %d rows read, but %d kept + %d dropped + %d rejected;"+
			" this is a bug in Sluice, and the dataset was not written", a.File, a.Read, a.Kept, dropped, rejected)
	}
	return a, nil
}

func total(counts map[string]int64) (sum int64) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

// mergeCounts reads sorted files and calls yield for each source file, in order, with the sum of its counts.
func mergeCounts(paths []string, yield func(*FileCount) error) (err error) {
	var streams []*countStream
	for _, path := range paths {
		f, openErr := os.Open(path)
		if openErr != nil {
			return errors.Join(err, openErr)
		}
		defer f.Close()
		s := &countStream{lines: json.NewDecoder(bufio.NewReader(f))}
		switch err := s.next(); {
		case err == nil:
			streams = insert(streams, s)
		case !errors.Is(err, io.EOF):
			return err
		}
	}
	for len(streams) > 0 {
		sum := newFileCount(streams[0].at.File)
		for len(streams) > 0 && streams[0].at.File == sum.File {
			first := streams[0]
			streams = slices.Delete(streams, 0, 1)
			sum.Add(first.at)
			switch err := first.next(); {
			case err == nil:
				streams = insert(streams, first)
			case !errors.Is(err, io.EOF):
				return err
			}
		}
		if err := yield(sum); err != nil {
			return err
		}
	}
	return nil
}

// countStream reads a file of counts; at is the current line.
type countStream struct {
	lines *json.Decoder
	at    *FileCount
}

func (s *countStream) next() error {
	s.at = &FileCount{}
	if err := s.lines.Decode(s.at); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the account of a unit: %w", err)
	} else if err != nil {
		return io.EOF
	}
	return nil
}

// insert inserts a stream into a list that is sorted by the streams' current source files.
func insert(streams []*countStream, s *countStream) []*countStream {
	at, _ := slices.BinarySearchFunc(streams, s, func(a, b *countStream) int { return strings.Compare(a.at.File, b.at.File) })
	return slices.Insert(streams, at, s)
}
