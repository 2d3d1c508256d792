package pipelines

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The formats of ReadFromJson.
const (
	formatLines    = "lines"
	formatDocument = "document"
)

// unitBytes is how much input makes one unit of work. It is fixed, so that the dead letter does not depend on the parallelism.
const unitBytes = 4 << 20

// source is one unit of the input: small files, or pieces of large ones.
type source struct {
	Pieces []piece `json:"pieces"`
}

// piece is a part of a file: the lines that start in [Start, End), or the whole file when it is a document.
type piece struct {
	Path string `json:"path"`
	// Name is Path as the dead letter shows it: relative to the folder that splitPattern finds.
	Name  string `json:"name"`
	Start int64  `json:"start"`
	End   int64  `json:"end"`
}

// findSources lists the files a pattern matches, by name, and cuts them into units.
func findSources(pattern, format string) ([]source, error) {
	base, rest := splitPattern(pattern)
	names, err := fs.Glob(os.DirFS(base), rest)
	if err != nil {
		return nil, fault(TypeInvalid, "path %q: %w", pattern, err)
	}
	slices.Sort(names)
	var units []source
	var unit source
	var size int64
	flush := func() {
		if len(unit.Pieces) > 0 {
			units = append(units, unit)
		}
		unit, size = source{}, 0
	}
	for _, name := range names {
		path := filepath.Join(base, name)
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("read the input: %w", err)
		}
		if !info.Mode().IsRegular() {
			continue
		}
		for _, p := range cut(piece{Path: path, Name: name, End: info.Size()}, format) {
			if size+p.End-p.Start > unitBytes {
				flush()
			}
			unit.Pieces = append(unit.Pieces, p)
			size += p.End - p.Start
		}
	}
	flush()
	if units == nil {
		return nil, fault(TypeUser, "no file matches %s", pattern)
	}
	return units, nil
}

// cut divides a file of lines into pieces of at most unitBytes.
func cut(whole piece, format string) []piece {
	if format == formatDocument {
		return []piece{whole}
	}
	var pieces []piece
	for start := int64(0); start < whole.End || start == 0; start += unitBytes {
		p := whole
		p.Start, p.End = start, min(start+unitBytes, whole.End)
		pieces = append(pieces, p)
	}
	return pieces
}

// splitPattern splits a pattern after the last of its leading folders that exists by that very name: an input's folder may be
// called anything, also "[a]". What is read lies in that folder.
func splitPattern(pattern string) (base, rest string) {
	base, rest = ".", filepath.Clean(pattern)
	if filepath.IsAbs(rest) {
		base, rest = "/", rest[1:]
	}
	for {
		first, after, more := strings.Cut(rest, "/")
		next := filepath.Join(base, first)
		if info, err := os.Stat(next); !more || err != nil || !info.IsDir() {
			return base, rest
		}
		base, rest = next, after
	}
}

// read calls yield for the text of each row in the piece with the offset it starts at. A row that cannot be taken as it is comes
// with a rejection. The text is valid until the next call.
func (p piece) read(format string, yield func(offset int64, text []byte, rejected error) error) (err error) {
	f, err := os.Open(p.Path)
	if err != nil {
		return fmt.Errorf("read the input: %w", err)
	}
	defer f.Close()
	if format == formatDocument {
		text, err := io.ReadAll(io.LimitReader(f, maxRow+1))
		if err != nil {
			return fmt.Errorf("read %s: %w", p.Name, err)
		}
		return yield(0, text, tooLong(text))
	}
	return p.readLines(f, yield)
}

func (p piece) readLines(f io.ReadSeeker, yield func(offset int64, text []byte, rejected error) error) error {
	// A line that starts before the piece belongs to the piece before; it ends at the first LF from Start-1 on.
	from := max(p.Start-1, 0)
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return fmt.Errorf("read %s: %w", p.Name, err)
	}
	r := bufio.NewReaderSize(f, 256<<10)
	at := from
	var line []byte
	for first := true; at < p.End; first = false {
		var n int64
		var err error
		line, n, err = readLine(r, line[:0])
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read %s: %w", p.Name, err)
		}
		start := at
		at += n
		if skip := first && p.Start > 0; !skip && strings.TrimSpace(string(line)) != "" {
			if err := yield(start, line, tooLong(line)); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
	return nil
}

// readLine appends the next line without its LF to line and returns how many bytes it took from r. Of a line longer than maxRow
// only the start is kept, one byte more than allowed.
func readLine(r *bufio.Reader, line []byte) (_ []byte, n int64, err error) {
	for {
		chunk, err := r.ReadSlice('\n')
		n += int64(len(chunk))
		line = append(line, chunk[:min(len(chunk), maxRow+2-len(line))]...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err == nil && n <= maxRow+2 {
			line = line[:len(line)-1]
		}
		return line, n, err
	}
}

func tooLong(text []byte) error {
	if len(text) > maxRow {
		return reject("too_long", "the row has more than %d bytes", maxRow)
	}
	return nil
}
