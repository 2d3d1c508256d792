package columns

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/sluiceml/sluice/pipelines/rows"
)

// RowDiff says how the rows of a newer dataset differ from those of an older one.
type RowDiff struct {
	Added   int64 `json:"added"`
	Removed int64 `json:"removed"`
	// Changed counts rows whose key is in both datasets, with different fields. Without a key it is zero: such rows count as removed and
	// added.
	Changed int64 `json:"changed"`
	Same    int64 `json:"same"`
}

// Rows calls yield for each row of a dataset, as a text of rows.Pack that is valid until yield returns.
type Rows func(yield func(text []byte) error) error

const (
	// rowsInMemory is about how many rows are compared at a time.
	rowsInMemory = 500_000
	maxParts     = 512
	recordSize   = 1 + 16 + 16
)

// DiffRows compares datasets that have about count rows together, by the fields of key, or as whole rows if key is empty. Rows with the
// same key are paired with equal rows first, and the rest in arbitrary order. It needs 33 bytes per row on disk, in the folder temp, and
// memory for the digests of one part of the rows.
func DiffRows(ctx context.Context, older, newer Rows, count int64, key []string, temp string) (d RowDiff, err error) {
	parts, err := createParts(temp, min(maxParts, 1+count/rowsInMemory))
	if err != nil {
		return d, err
	}
	defer func() {
		for _, p := range parts {
			p.file.Close()
		}
	}()
	for side, rows := range []Rows{older, newer} {
		err := rows(func(text []byte) error {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			record, err := recordOf(byte(side), text, key)
			if err != nil {
				return err
			}
			_, err = parts[(int(record[1])<<8|int(record[2]))%len(parts)].out.Write(record[:])
			return err
		})
		if err != nil {
			return d, err
		}
	}
	for _, p := range parts {
		if err := p.compare(&d); err != nil {
			return d, err
		}
	}
	return d, nil
}

// record holds which dataset a row belongs to, and the digests of its key and of the row.
type record [recordSize]byte

func recordOf(side byte, text []byte, key []string) (r record, err error) {
	value, _, err := rows.DecodeTypedValue(text)
	if err != nil {
		return r, fmt.Errorf("the row %.80q cannot be read: %w", text, err)
	}
	row, ok := value.(map[string]any)
	if !ok {
		return r, fmt.Errorf("the row %.80q is not an object", text)
	}
	whole, err := rows.AppendTypedValue(nil, row)
	if err != nil {
		return r, err
	}
	r[0] = side
	sum := sha256.Sum256(whole)
	copy(r[17:], sum[:16])
	copy(r[1:17], sum[:16])
	if len(key) == 0 {
		return r, nil
	}
	values := make([]any, len(key))
	for i, name := range key {
		v, ok := row[name]
		if !ok {
			return r, fmt.Errorf("the row %.80q has no field %q, which is in the key", text, name)
		}
		values[i] = v
	}
	if whole, err = rows.AppendComparable(nil, values); err != nil {
		return r, err
	}
	sum = sha256.Sum256(whole)
	copy(r[1:17], sum[:16])
	return r, nil
}

// part is a file with the records of a share of the keys.
type part struct {
	file *os.File
	out  *bufio.Writer
}

func createParts(temp string, n int64) ([]part, error) {
	parts := make([]part, n)
	for i := range parts {
		f, err := os.CreateTemp(temp, "rows-*")
		if err == nil {
			err = os.Remove(f.Name()) // the space is freed when the process ends
		}
		if err != nil {
			for _, p := range parts[:i] {
				p.file.Close()
			}
			return nil, err
		}
		parts[i] = part{file: f, out: bufio.NewWriterSize(f, 16<<10)}
	}
	return parts, nil
}

func (p part) compare(d *RowDiff) error {
	if err := p.out.Flush(); err != nil {
		return err
	}
	if _, err := p.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	var all []record
	for in := bufio.NewReader(p.file); ; {
		var r record
		if _, err := io.ReadFull(in, r[:]); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b record) int {
		return cmp.Or(bytes.Compare(a[1:], b[1:]), cmp.Compare(a[0], b[0]))
	})
	for len(all) > 0 {
		n := 1
		for n < len(all) && bytes.Equal(all[n][1:17], all[0][1:17]) {
			n++
		}
		d.pair(all[:n])
		all = all[n:]
	}
	return nil
}

// pair counts the rows of one key, sorted by row digest.
func (d *RowDiff) pair(rows []record) {
	var left [2]int64 // rows of each dataset without an equal row in the other
	for len(rows) > 0 {
		var n [2]int64
		same := rows[0]
		for len(rows) > 0 && bytes.Equal(rows[0][17:], same[17:]) {
			n[rows[0][0]]++
			rows = rows[1:]
		}
		both := min(n[0], n[1])
		d.Same += both
		left[0] += n[0] - both
		left[1] += n[1] - both
	}
	changed := min(left[0], left[1])
	d.Changed += changed
	d.Removed += left[0] - changed
	d.Added += left[1] - changed
}
