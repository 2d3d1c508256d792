package pipelines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	dsltransform "github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines/columns"
	"github.com/sluiceml/sluice/pipelines/format"
	"github.com/sluiceml/sluice/pipelines/rows"
	"github.com/sluiceml/sluice/pipelines/transform"
)

// typesFolder is the folder, in the work folder, with the types of the files that were read: a file for each distinct type, by reading
// node.
const typesFolder = "types"

// notedTypes is what is recorded of a file: the type of its rows, and whether there are none.
type notedTypes struct {
	Row   *columns.Type `json:"row"`
	Empty bool          `json:"empty,omitempty"`
}

// noteTypes records the column types that a file declares. The worker that reads the rows does it, since each file must be opened for it.
func (f *readFn) noteTypes(ctx context.Context, file format.File) (err error) {
	typed, ok := f.entry().source.Format.(format.Typed)
	if !ok || !f.plan.writesTyped() {
		return nil
	}
	// A file may be read in many pieces; its types are recorded once.
	known := fmt.Sprintf("%d %s", f.at(), file.Name)
	if _, noted := f.session.typed.Load(known); noted {
		return nil
	}
	var noted notedTypes
	if noted.Row, noted.Empty, err = typed.Types(ctx, file); err != nil || noted.Row == nil {
		return err
	}
	defer func() {
		if err == nil {
			f.session.typed.Store(known, true)
		}
	}()
	text, err := json.Marshal(noted)
	if err != nil {
		return err
	}
	path := filepath.Join(f.job.WorkDir, typesFolder, fmt.Sprintf("%d-%x", f.at(), rows.DigestOf(text)))
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	own, err := os.CreateTemp(filepath.Dir(path), ".types-*")
	if err != nil {
		return err
	}
	_, err = own.Write(text)
	if err = errors.Join(err, own.Close()); err != nil {
		return err
	}
	return os.Rename(own.Name(), path)
}

// writesTyped reports whether any sink writes typed columns.
func (p *plan) writesTyped() bool {
	for s := range p.sinks() {
		if s.format.Typed {
			return true
		}
	}
	return false
}

// flow is what is known about the types of the rows at a node. typ is nil if no row of a known type reaches it.
type flow struct {
	typ     *columns.Type
	empty   bool // typ is that of files without rows
	unknown bool // rows of unknown types reach the node
}

// join adds the rows of another flow. Files without rows have no say where others have some: their columns often have types of no meaning.
func (f *flow) join(o flow) {
	f.unknown = f.unknown || o.unknown
	switch {
	case o.typ == nil || f.typ != nil && o.empty && !f.empty:
	case f.typ == nil || f.empty && !o.empty:
		f.typ, f.empty = o.typ, o.empty
	default:
		f.typ = columns.Join(f.typ, o.typ)
	}
}

// typesAt returns the type of the rows that reach each node, from the recorded types of the files. It is nil for nodes that rows of unknown
// types reach.
func (p *plan) typesAt(job Job) ([]*columns.Type, error) {
	graph, err := dsltransform.Graph(&job.Spec)
	if err != nil {
		return nil, err
	}
	at := make([]flow, len(p.nodes))
	for i := range p.nodes { // a node comes after those it reads from
		n, out := &p.nodes[i], at[i]
		switch {
		case n.source.Format != nil:
			if out, err = sourceTypes(job.WorkDir, i, n.source.Format); err != nil {
				return nil, err
			}
		case out.typ != nil:
			if out.typ, err = transform.Retyped(graph[i].Transform, out.typ); err != nil {
				return nil, err
			}
		}
		for _, next := range n.next {
			at[next].join(out)
		}
		for name, takers := range n.outputs {
			handed := out
			if name == n.rejects {
				handed = flow{unknown: true}
			}
			for _, next := range takers {
				at[next].join(handed)
			}
		}
	}
	types := make([]*columns.Type, len(at))
	for i, f := range at {
		if !f.unknown {
			types[i] = f.typ
		}
	}
	return types, nil
}

// sourceTypes joins the recorded types of a source's files.
func sourceTypes(work string, node int, f format.Format) (out flow, err error) {
	if _, ok := f.(format.Typed); !ok {
		return flow{unknown: true}, nil
	}
	dir := os.DirFS(filepath.Join(work, typesFolder))
	names, err := fs.Glob(dir, fmt.Sprintf("%d-*", node))
	for _, name := range names {
		text, err := fs.ReadFile(dir, name)
		if err != nil {
			return out, err
		}
		var noted notedTypes
		if err := json.Unmarshal(text, &noted); err != nil {
			return out, err
		}
		out.join(flow{typ: noted.Row, empty: noted.Empty})
	}
	return out, err
}
