package pipelines

import (
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/sluiceml/sluice/pipelines/format"
	"github.com/sluiceml/sluice/pipelines/transform"
)

func init() { register.DoFn3x0[string, []byte, func(string, []byte)](&onlyFn{}) }

// node is a compiled transform, with the nodes that its rows go to.
type node struct {
	name string
	// At most one of source, row and end is set. source and end begin and end segments; a node with none of them passes rows through
	// unchanged.
	source format.Reader
	row    *transform.Compiled
	end    transform.End
	// split assigns rows to the parts of the sinks that follow.
	split *transform.Splitter
	// blames is the name that rejections at this end are counted under.
	blames string
	// next lists the nodes that receive its rows, except those of named outputs.
	next []int
	// outputs lists the nodes that receive the rows of each named output. rejects is the name of the output for rejected rows; if it is
	// empty, they go to the dead letter.
	outputs map[string][]int
	rejects string
	// threshold is nil if any number of rows may be rejected.
	threshold *transform.Threshold
}

// feed records that the node with index at receives the rows of an output.
func (n *node) feed(output string, at int) {
	if output == "" {
		n.next = append(n.next, at)
		return
	}
	if n.outputs == nil {
		n.outputs = map[string][]int{}
	}
	n.outputs[output] = append(n.outputs[output], at)
}

// isCut reports whether the node compares rows with each other. Such a node ends segments, and begins one.
func (n *node) isCut() bool {
	_, isSink := n.end.(*sink)
	return n.end != nil && !isSink
}

// segment is the part of the graph from an entry, which is a source or a cut, to the next ends.
type segment struct {
	entry int
	ends  []int
}

// segmentAt adds to the Beam graph the grouping and the decision at a cut, and the segment that begins there.
func segmentAt(cut transform.End, scope beam.Scope, job []byte, index uint16, marks beam.PCollection) beam.PCollection {
	grouped := beam.GroupByKey(scope, marks)
	segment := func() segmentFn { return segmentFn{workersFn: workersFn{Job: job}, Index: index} }
	var kept beam.PCollection
	switch cut := cut.(type) {
	case *transform.Combiner:
		return beam.ParDo(scope, &combineFn{segment()}, grouped)
	case *transform.Deduplicate:
		kept = beam.ParDo(scope, &dedupFn{workersFn: workersFn{Job: job}, Rule: cut.Name}, grouped)
	default:
		kept = beam.ParDo(scope, &resembleFn{segment()}, grouped)
	}
	return beam.ParDo(scope, &resumeFn{segment()}, beam.GroupByKey(scope, kept))
}

// cutIntoSegments divides the nodes into segments.
func (p *plan) cutIntoSegments() {
	for i, n := range p.nodes {
		if n.source.Format != nil || n.isCut() {
			p.segments = append(p.segments, segment{entry: i, ends: p.endsAfter(i)})
		}
	}
}

// endsAfter returns the ends that rows can reach from an entry, in plan order.
func (p *plan) endsAfter(entry int) []int {
	seen := map[int]bool{}
	var ends []int
	var walk func(takers []int)
	from := func(n *node) {
		walk(n.next)
		for name, takers := range n.outputs {
			if name != n.rejects || n.end == nil { // rows that an end rejected did not reach it
				walk(takers)
			}
		}
	}
	walk = func(takers []int) {
		for _, at := range takers {
			n := &p.nodes[at]
			switch {
			case seen[at]:
			case n.end != nil:
				ends = append(ends, at)
				walk(n.outputs[n.rejects])
			default:
				from(n)
			}
			seen[at] = true
		}
	}
	from(&p.nodes[entry])
	slices.Sort(ends)
	return ends
}

// build builds the Beam graph, in which marks flow, keyed by end and group. If spread is set, the units of the input are distributed, so
// that a runner can process several at a time; otherwise one bundle gets them all, and its own workers process them.
func (p *plan) build(scope beam.Scope, job []byte, work string, elements map[int][][]byte, spread bool) {
	marks := map[int][]beam.PCollection{} // by end
	for i, s := range p.segments {
		n := &p.nodes[s.entry]
		named := scope.Scope(n.name)
		var rows beam.PCollection
		if n.isCut() {
			rows = segmentAt(n.end, named, job, uint16(i), beam.Flatten(named, marks[s.entry]...))
		} else {
			units := beam.CreateList(named, elements[s.entry])
			if spread {
				units = beam.Reshuffle(named, units)
			}
			rows = beam.ParDo(named, &readFn{segmentFn{workersFn: workersFn{Job: job}, Index: uint16(i)}}, units)
		}
		for _, at := range s.ends {
			mine := rows
			if len(s.ends) > 1 {
				mine = beam.ParDo(named, &onlyFn{Prefix: endPrefix(at)}, rows)
			}
			marks[at] = append(marks[at], mine)
		}
	}
	var profiles []beam.PCollection
	for i, n := range p.nodes {
		if _, ok := n.end.(*sink); ok {
			named := scope.Scope(n.name)
			grouped := beam.GroupByKey(named, beam.Flatten(named, marks[i]...))
			profiles = append(profiles, beam.ParDo(named, &writeFn{workersFn: workersFn{Job: job}}, grouped))
		}
	}
	beam.ParDo0(scope, &profileFn{Work: work}, beam.GroupByKey(scope, beam.Flatten(scope, profiles...)))
}

// cuts returns the names of the cuts by node.
func (p *plan) cuts() map[int]string {
	names := map[int]string{}
	for at, n := range p.nodes {
		if n.isCut() {
			names[at] = n.name
		}
	}
	return names
}

// sinks yields the sinks.
func (p *plan) sinks() iter.Seq[*sink] {
	return func(yield func(*sink) bool) {
		for _, n := range p.nodes {
			if s, ok := n.end.(*sink); ok && !yield(s) {
				return
			}
		}
	}
}

// units returns the number of units of work: for each segment, the units of the input whose rows can reach it, and the shards.
func (p *plan) units(sources map[int][]numberedSource) int64 {
	at := map[int]int{} // by entry or end
	total := 0
	for _, s := range p.segments {
		n := at[s.entry] + len(sources[s.entry])
		if _, ok := p.nodes[s.entry].end.(*transform.Combiner); ok {
			n = transform.CutGroups
		}
		total += n
		for _, end := range s.ends {
			at[end] += n
		}
	}
	for s := range p.sinks() {
		total += len(s.parts()) * s.shards
	}
	return int64(total)
}

// endPrefix is the prefix of the keys that an end's marks are grouped by.
func endPrefix(at int) string { return strconv.Itoa(at) + "/" }

// onlyFn passes on the marks of one end.
type onlyFn struct {
	Prefix string
}

// ProcessElement passes on packed marks whose key has the prefix.
func (f *onlyFn) ProcessElement(key string, packed []byte, emit func(string, []byte)) {
	if strings.HasPrefix(key, f.Prefix) {
		emit(key, packed)
	}
}
