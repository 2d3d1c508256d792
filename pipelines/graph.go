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

// node is a compiled transform and where its rows go on to.
type node struct {
	name string
	// At most one of these is set: source and end bound the segments, and a row goes by a node without any as if it were not there.
	source format.Reader
	row    *transform.Compiled
	end    transform.End
	// split assigns the parts of the sinks that follow.
	split *transform.Splitter
	// blames is the name that rejections at the end are counted under.
	blames string
	// next are the nodes that take its rows, but for those of named outputs.
	next []int
	// outputs are those that take the rows of named outputs, and rejects is the name of that for rejected rows; empty when these go to
	// the dead letter.
	outputs map[string][]int
	rejects string
	// threshold is nil when any number of rows may be rejected.
	threshold *transform.Threshold
}

// feed notes that a node takes the rows of an output.
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

// isCut reports whether rows are compared with others at a node: it ends segments, and one begins there.
func (n *node) isCut() bool {
	_, isSink := n.end.(*sink)
	return n.end != nil && !isSink
}

// segment is what a row passes between an entry, which is a source or a cut, and ends.
type segment struct {
	entry int
	ends  []int
}

// segmentAt adds to the Beam graph what a cut decides on the marks, grouped, and the segment that begins there.
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

// cutIntoSegments finds the segments of the nodes.
func (p *plan) cutIntoSegments() {
	for i, n := range p.nodes {
		if n.source.Format != nil || n.isCut() {
			p.segments = append(p.segments, segment{entry: i, ends: p.endsAfter(i)})
		}
	}
}

// endsAfter returns the ends that a row can come to from an entry, in the order of the nodes.
func (p *plan) endsAfter(entry int) []int {
	seen := map[int]bool{}
	var ends []int
	var walk func(takers []int)
	from := func(n *node) {
		walk(n.next)
		for name, takers := range n.outputs {
			if name != n.rejects || n.end == nil { // what an end rejects does not come to it
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

// build makes the Beam graph: what flows are marks, by end and group. With spread, a runner works on several units of the input at a
// time; without, the worker that made the list of them gets them all, and has a pool of its own.
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

// cuts returns the names of the cuts, by their nodes.
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

// units is the number of units of work: the units of the input in each segment that their rows can come to, and the shards.
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

// endPrefix begins the keys that the marks of an end are grouped by.
func endPrefix(at int) string { return strconv.Itoa(at) + "/" }

// onlyFn lets the marks of one end through.
type onlyFn struct {
	Prefix string
}

// ProcessElement takes packed marks.
func (f *onlyFn) ProcessElement(key string, packed []byte, emit func(string, []byte)) {
	if strings.HasPrefix(key, f.Prefix) {
		emit(key, packed)
	}
}
