package steplog

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceml/sluice/store"
)

// Any selects all generations, nodes or ranks.
const Any = -1

// Selection is what to read of a log. Each field is a number or Any.
type Selection struct{ Generation, Node, Rank int }

// Line is one line of what was printed, without the newline.
type Line struct {
	Generation, Node int
	// Rank is a number among the ranks of all nodes, or NoRank.
	Rank int
	// At is when it was printed, to the second.
	At   time.Time
	Text string
	// Shared is true if the selection has more than one rank in this generation.
	Shared bool
}

// Reader reads the log of one step or instance, each time what was added to it.
type Reader struct {
	store     *store.Store
	selection Selection
	chunks    map[int]map[int][]store.Info // by generation and node, as of the last Add
	gangs     map[int]gang                 // by generation
	seen      map[string]seen              // by the key of a chunk
	begun     map[source]Line              // lines that have not ended
}

// gang is how many nodes a generation has, and ranks on each.
type gang struct{ nodes, ranks int }

// seen is how many entries of a chunk have been read, and how long it was then.
type seen struct {
	bytes   int64
	entries int
}

type source struct{ generation, node, rank int }

// NewReader returns a reader of a selection from one log.
func NewReader(s *store.Store, selection Selection) *Reader {
	return &Reader{
		store: s, selection: selection,
		gangs: map[int]gang{}, seen: map[string]seen{}, begun: map[source]Line{},
	}
}

// Log is what a step, or an instance such as fit.3, has printed.
type Log struct {
	Step   string
	chunks map[int]map[int][]store.Info // by generation and node
}

// List returns the log of the step with an ID, and those of its instances, if they have printed something; fit.2 before fit.10. Without an ID it
// returns those of all steps.
func List(ctx context.Context, s *store.Store, run, id string) ([]Log, error) {
	var logs []Log
	above := path.Join(store.LogsPrefix, run) + "/"
	for info, err := range s.Driver().List(ctx, above+id) {
		if err != nil {
			return nil, err
		}
		step, within, _ := strings.Cut(strings.TrimPrefix(info.Key, above), "/")
		var generation, node int
		n, err := fmt.Sscanf(within, "g%d/n%d/", &generation, &node)
		if n < 2 || err != nil || id != "" && step != id && !strings.HasPrefix(step, id+".") {
			continue
		}
		if len(logs) == 0 || logs[len(logs)-1].Step != step {
			logs = append(logs, Log{step, map[int]map[int][]store.Info{}})
		}
		chunks := logs[len(logs)-1].chunks
		if chunks[generation] == nil {
			chunks[generation] = map[int][]store.Info{}
		}
		chunks[generation][node] = append(chunks[generation][node], info)
	}
	slices.SortFunc(logs, func(a, b Log) int { return cmp.Or(cmp.Compare(len(a.Step), len(b.Step)), cmp.Compare(a.Step, b.Step)) })
	return logs, nil
}

// Add takes the latest state of the log, and returns the selected generations that have printed something, in their order.
func (r *Reader) Add(found Log) []int {
	r.chunks = found.chunks
	return slices.DeleteFunc(slices.Sorted(maps.Keys(r.chunks)), func(g int) bool {
		return r.selection.Generation != Any && r.selection.Generation != g
	})
}

// Read calls each with the new lines of a generation that Add has returned, ordered by time as far as they are new. Where ended is true, also
// with those that lack their newline.
func (r *Reader) Read(ctx context.Context, generation int, ended bool, each func(Line) error) error {
	g, err := r.gang(ctx, generation)
	if err != nil {
		return err
	}
	var cursors []*cursor
	for _, node := range slices.Sorted(maps.Keys(r.chunks[generation])) {
		if r.wants(g, node) {
			cursors = append(cursors, &cursor{r: r, node: node, chunks: r.chunks[generation][node]})
		}
	}
	for {
		idle := slices.DeleteFunc(slices.Clone(cursors), func(c *cursor) bool { return !c.empty() })
		if err := store.Each(ctx, len(idle), func(ctx context.Context, i int) error { return idle[i].fill(ctx) }); err != nil {
			return err
		}
		for _, c := range idle {
			c.note()
		}
		cursors = slices.DeleteFunc(cursors, (*cursor).empty)
		if len(cursors) == 0 {
			break
		}
		for !slices.ContainsFunc(cursors, (*cursor).empty) {
			c := slices.MinFunc(cursors, func(a, b *cursor) int { return a.entries[0].At.Compare(b.entries[0].At) })
			if err := r.lines(g, source{generation, c.node, c.entries[0].Rank}, c.entries[0], each); err != nil {
				return err
			}
			c.entries = c.entries[1:]
		}
	}
	if !ended {
		return nil
	}
	return r.rest(generation, each)
}

// gang reads how large a generation is from the first of its chunks.
func (r *Reader) gang(ctx context.Context, generation int) (gang, error) {
	if g, known := r.gangs[generation]; known {
		return g, nil
	}
	for _, node := range slices.Sorted(maps.Keys(r.chunks[generation])) {
		found, err := store.Records[chunk](ctx, r.store, []string{r.chunks[generation][node][0].Key})
		if err != nil {
			return gang{}, err
		}
		if found[0] != nil {
			g := gang{nodes: found[0].Nodes, ranks: max(1, found[0].Ranks)}
			r.gangs[generation] = g
			return g, nil
		}
	}
	return gang{}, nil
}

// wants reports whether something of a node is selected.
func (r *Reader) wants(g gang, node int) bool {
	s := r.selection
	return (s.Node == Any || s.Node == node) && (s.Rank == Any || g.ranks > 0 && s.Rank/g.ranks == node)
}

// shared reports whether the selection has several ranks of a gang.
func (r *Reader) shared(g gang) bool {
	return r.selection.Rank == Any && (g.ranks > 1 || r.selection.Node == Any && g.nodes > 1)
}

// lines calls each with the lines that end within an entry.
func (r *Reader) lines(g gang, from source, e entry, each func(Line) error) error {
	if r.selection.Rank != Any && e.Rank != r.selection.Rank && e.Rank != noteRank {
		return nil
	}
	for text := e.Text; text != ""; {
		part, rest, ended := strings.Cut(text, "\n")
		text = rest
		line, begun := r.begun[from]
		if !begun {
			line = Line{Generation: from.generation, Node: from.node, Rank: max(e.Rank, NoRank), At: e.At, Shared: r.shared(g)}
		}
		line.Text += part
		if !ended && len(line.Text) < chunkBytes {
			r.begun[from] = line
			return nil
		}
		delete(r.begun, from)
		if err := each(line); err != nil {
			return err
		}
	}
	return nil
}

// rest calls each with what has no newline.
func (r *Reader) rest(generation int, each func(Line) error) error {
	sources := slices.SortedFunc(maps.Keys(r.begun), func(a, b source) int { return cmp.Or(a.node-b.node, a.rank-b.rank) })
	for _, from := range sources {
		if from.generation != generation {
			continue
		}
		line := r.begun[from]
		delete(r.begun, from)
		if err := each(line); err != nil {
			return err
		}
	}
	return nil
}

// Missing says which part of the selection there is not, as far as Add and Read have found, and in a second line what there is; empty where
// there is all of it, or nothing was printed yet.
func (r *Reader) Missing() string {
	generations := slices.Sorted(maps.Keys(r.chunks))
	if len(generations) == 0 {
		return ""
	}
	s := r.selection
	if s.Generation != Any && !slices.Contains(generations, s.Generation) {
		return fmt.Sprintf("generation %d\nhelp: there is output of %s", s.Generation, numbers("generation", generations))
	}
	nodes, ranks := 0, 0
	for g, size := range r.gangs {
		if s.Generation == Any || s.Generation == g {
			nodes, ranks = max(nodes, size.nodes), max(ranks, size.nodes*size.ranks)
		}
	}
	switch {
	case nodes > 0 && s.Node >= nodes:
		return fmt.Sprintf("node %d\nhelp: there %s", s.Node, span("node", nodes))
	case ranks > 0 && s.Rank >= ranks:
		return fmt.Sprintf("rank %d\nhelp: there %s", s.Rank, span("rank", ranks))
	}
	return ""
}

// numbers names things by their numbers: generations 1, 2.
func numbers(noun string, all []int) string {
	if len(all) > 1 {
		noun += "s"
	}
	texts := make([]string, len(all))
	for i, n := range all {
		texts[i] = strconv.Itoa(n)
	}
	return noun + " " + strings.Join(texts, ", ")
}

// span says that things are numbered from 0.
func span(noun string, n int) string {
	if n == 1 {
		return "is only " + noun + " 0"
	}
	return fmt.Sprintf("are %ss 0 to %d", noun, n-1)
}
