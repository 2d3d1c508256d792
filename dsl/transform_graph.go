package dsl

// GraphNode is a transform of a cleaning with where its rows come from.
type GraphNode struct {
	Transform
	// From are the outputs that it takes rows from; none when it reads files.
	From []GraphOutput
}

// GraphOutput is an output of a transform.
type GraphOutput struct {
	// Node is the index of the transform.
	Node int
	// Name of the output; empty for the one that has all rows but those of named outputs.
	Name string
}

// Graph returns the transforms in an order in which each comes after those that it takes rows from.
func (spec *Clean) Graph() []GraphNode {
	nodes := make([]GraphNode, len(spec.Transforms))
	for i, t := range spec.Transforms {
		if t.Name == "" {
			t.Name = t.Type
		}
		nodes[i].Transform = t
		if i > 0 {
			nodes[i].From = []GraphOutput{{Node: i - 1}}
		}
	}
	return nodes
}
