package format

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines/columns"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// UnitSize is how much input makes one unit of work. It is constant, so that the dead letter does not depend on the parallelism.
const UnitSize = 4 << 20

// Piece is a part of a file: the rows that start in [Start, End).
type Piece struct {
	File  File  `json:"file"`
	Start int64 `json:"start"`
	End   int64 `json:"end"`
}

// whole reports whether the piece is the entire file. The content of a compressed file may be longer than End.
func (p Piece) whole() bool { return p.Start == 0 && p.End == p.File.Size }

// Record is one row of a file.
type Record struct {
	// Offset is that of the record's first byte in the file's content; in binary formats it is the number of the row.
	Offset int64
	Row    rows.Row
	// If the record cannot be a row, Rejected is the rejection and Text what can be shown of it, valid until the next record.
	Text     []byte
	Rejected error
	// Lost is the number of rows that were rejected, if there are more than one.
	Lost int64
}

// showRow makes the Row of a rejected record, which is not complete, its Text.
func (r *Record) showRow() {
	if r.Rejected == nil || r.Row == nil {
		return
	}
	r.Text, _ = rows.Encode(r.Row) // without a text, the reason has to do
	r.Row = nil
}

// Format reads the rows of one kind of file. It is safe for concurrent use.
type Format interface {
	// Cut divides a file of more than UnitSize into pieces.
	Cut(ctx context.Context, whole Piece) ([]Piece, error)
	// Read calls yield for each row of a piece. Invalid data yields rejections.
	Read(ctx context.Context, p Piece, yield func(Record) error) error
}

// Typed is a format whose files declare the types of their columns.
type Typed interface {
	// Types returns the type of a file's rows, a struct, and whether there are none. For a corrupt file the type is nil.
	Types(ctx context.Context, file File) (t *columns.Type, empty bool, err error)
}

// Reader is a compiled ReadFrom transform.
type Reader struct {
	Paths  spec.Paths
	Format Format
	// Tolerant says that what cannot be read of a file is rejected rows, and not an error.
	Tolerant bool
	// Partitioned says that folders of paths are columns, and Filename is the field for the file's name; empty if there is none.
	Partitioned bool
	Filename    string
}

// Locate adds the fields of a row that say where it was read. The row's own fields win.
func (r *Reader) Locate(row rows.Row, file *File) {
	for _, p := range file.Partitions {
		if _, ok := row[p.Name]; !ok {
			row[p.Name] = p.Value()
		}
	}
	if r.Filename != "" {
		row[r.Filename] = file.Name
	}
}

// CompileReader compiles a transform that reads files.
func CompileReader(t spec.Transform) (r Reader, err error) {
	switch {
	case transform.Is[transform.ReadFromJSON](t.Type):
		r, err = compileReaderAs(t, CompileReadJSON)
	case transform.Is[transform.ReadFromText](t.Type):
		r, err = compileReaderAs(t, compileReadText)
	case transform.Is[transform.ReadFromCSV](t.Type):
		r, err = compileReaderAs(t, compileReadCSV)
	case transform.Is[transform.ReadFromParquet](t.Type):
		r, err = compileReaderAs(t, compileReadParquet)
	case transform.Is[transform.ReadFromAvro](t.Type):
		r, err = compileReaderAs(t, compileReadAvro)
	default:
		return r, fmt.Errorf("there is no transform of type %q", t.Type)
	}
	if err == nil && len(r.Paths) == 0 {
		return r, errors.New("path: set the files to read")
	}
	return r, err
}

// compileReaderAs decodes the config and passes it to the reader's compile function.
func compileReaderAs[C any](t spec.Transform, compile func(C) (Reader, error)) (Reader, error) {
	config, err := rows.DecodeConfig[C](t)
	if err != nil {
		return Reader{}, err
	}
	r, err := compile(config)
	if err != nil {
		return r, err
	}
	keys := any(config).(interface{ Read() transform.ReadKeys }).Read()
	unreadable, err := rows.OneOf("on_unreadable", keys.OnUnreadable, "fail", "reject")
	r.Tolerant, r.Filename = unreadable == "reject", keys.Filename
	r.Partitioned = !transform.Is[transform.ReadFromText](t.Type)
	return r, err
}
