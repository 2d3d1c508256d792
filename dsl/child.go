package dsl

// ChildPipeline runs another pipeline as a child: exactly one of file and steps. The child sees its own params and nothing else of its
// parent.
type ChildPipeline struct {
	// File is the child's document, relative to the folder of the pipeline that is run.
	File string `json:"file,omitempty" dsl:"literal"`
	// Params of the child. A file declares what it takes; for steps written here these are all the params there are, each of the type of
	// its value.
	Params map[string]any `json:"params,omitempty" dsl:"names"`
	// Steps are the child, written in place.
	Steps Steps `json:"steps,omitempty"`
	// Outputs are what steps written here hand on. A file declares its own.
	Outputs map[string]any `json:"outputs,omitempty" dsl:"names,raw"`
}

// Kind implements Spec.
func (*ChildPipeline) Kind() Kind { return KindPipeline }
