package shard

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/sluiceml/sluice/pipelines/columns"
	"github.com/sluiceml/sluice/pipelines/rows"
	"github.com/sluiceml/sluice/pipelines/spill"
	"github.com/sluiceml/sluice/pipelines/transform"
)

// ref is the part of a mark that is needed to write its row. The refs of a part of the shard are in memory together.
type ref struct {
	key     rows.Digest
	offset  uint64
	unit    uint32
	size    uint32
	segment uint16
}

func fetch(work string, refs []spill.Reference) ([]ref, error) {
	rows := make([]ref, 0, spill.CountMarks(refs))
	err := spill.FetchMarks(work, refs, func(p spill.Packed) {
		m := p.Mark()
		rows = append(rows, ref{m.Key, m.Offset, m.Unit, m.Size, m.Segment})
	})
	slices.SortFunc(rows, func(a, b ref) int { return bytes.Compare(a.key[:], b.key[:]) })
	return rows, err
}

// Writer writes the rows of a shard and computes their profile.
type Writer struct {
	Work    string
	Workers int
	Columns transform.Columns
	Part    string
	// Profile and seen describe what was written; seen is nil if the shard is not converted.
	Profile *columns.Profile
	seen    columns.Seen
	// Wrote is called with the number of rows written since the last call.
	Wrote func(rows int)
}

// chunk is a sequence of consecutive rows of a shard, with their profile.
type chunk struct {
	text    []byte
	rows    int
	profile *columns.Profile
	seen    columns.Seen
}

// chunkBytes is the size of the chunks that workers read.
const chunkBytes = 4 << 20

// Write writes the rows of a shard as JSON lines to its path; or, if they are to be converted, to a file next to it, together with the
// columns seen.
func (w *Writer) Write(ctx context.Context, group, path string, refs []spill.Reference) error {
	if LinesPath(path) != path {
		w.seen = columns.Seen{}
	}
	err := spill.CreateSynced(LinesPath(path), func(out io.Writer) error {
		return spill.InParts(w.Work, group, refs, func(refs []spill.Reference) error {
			rows, err := fetch(w.Work, refs)
			if err != nil {
				return err
			}
			return w.rows(ctx, rows, out)
		})
	})
	if w.seen != nil && err == nil {
		err = spill.WriteJSON(seenPath(path), w.seen)
	}
	return err
}

// rows lets workers read chunks and writes them in order. Memory: a chunk for each worker, and one more.
func (w *Writer) rows(ctx context.Context, rows []ref, out io.Writer) error {
	work, ctx := errgroup.WithContext(ctx)
	chunks := make(chan chan chunk, max(w.Workers-1, 0)) // in order; each may still be being read
	work.Go(func() error {
		defer close(chunks)
		for len(rows) > 0 {
			n := chunkLen(rows)
			mine, c := rows[:n], make(chan chunk, 1)
			rows = rows[n:]
			select {
			case chunks <- c:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			work.Go(func() error { return w.read(ctx, mine, c) })
		}
		return nil
	})
	work.Go(func() error {
		for c := range chunks {
			select {
			case full := <-c:
				if _, err := out.Write(full.text); err != nil {
					return err
				}
				w.Wrote(full.rows)
				w.Profile.Merge(full.profile)
				if w.seen != nil {
					w.seen.Join(full.seen)
				}
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	})
	return work.Wait()
}

// chunkLen returns how many of the first rows make a chunk: at least one.
func chunkLen(rows []ref) int {
	size := 0
	for n, r := range rows {
		if size += int(r.size) + 1; size > chunkBytes && n > 0 {
			return n
		}
	}
	return len(rows)
}

// read reads the rows of a chunk from the spill files, in the order in which they are stored there.
func (w *Writer) read(ctx context.Context, rows []ref, to chan<- chunk) error {
	starts, total := make([]int, len(rows)), 0
	order := make([]int, len(rows))
	for i, r := range rows {
		order[i], starts[i] = i, total
		total += int(r.size) + 1
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := &rows[i], &rows[j]
		return cmp.Or(cmp.Compare(a.segment, b.segment), cmp.Compare(a.unit, b.unit), cmp.Compare(a.offset, b.offset))
	})
	c := chunk{text: make([]byte, total), rows: len(rows), profile: columns.NewProfile(w.Part)}
	if w.seen != nil {
		c.seen = columns.Seen{}
	}
	lines, other := make([][]byte, len(rows)), false // whether a line is not the text of its row
	spills := spill.NewFiles(w.Work)
	defer spills.Close()
	for _, i := range order {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r := rows[i]
		end := starts[i] + int(r.size)
		text := c.text[starts[i]:end]
		c.text[end] = '\n'
		lines[i] = c.text[starts[i] : end+1]
		if err := spills.Read(spill.ID{Segment: r.segment, Unit: r.unit}, r.offset, text); err != nil {
			return err
		}
		line, err := w.describe(text, c)
		if err != nil {
			return err
		}
		if line != nil {
			lines[i], other = append(line, '\n'), true
		}
	}
	if other {
		c.text = bytes.Join(lines, nil)
	}
	to <- c
	return nil
}

// describe adds a row to the chunk's profile. If the shard remains JSON and the row's text is more than that, it returns its line.
func (w *Writer) describe(text []byte, c chunk) (line []byte, err error) {
	r, typed, err := rows.Unpack(text)
	if err != nil {
		return nil, err
	}
	if c.seen != nil {
		c.seen.Add(r)
	} else if typed {
		if line, err = rows.Encode(r); err != nil {
			return nil, err
		}
	}
	return line, w.Columns.Describe(c.profile, w.Part, r)
}
