package spec

// ChildPipeline runs another pipeline as a child: exactly one of file and steps. The child sees its own params and nothing else of its
// parent.
type ChildPipeline struct {
	// File is the child's document, relative to the folder of the pipeline that is run.
	File string `json:"file,omitempty" dsl:"choice,literal"`
	// Params of the child. A file declares its parameters; for inline steps these are all parameters, each with the type of its value.
	Params Values `json:"params,omitempty" dsl:"names"`
	// Steps are the steps of an inline child.
	Steps Steps `json:"steps,omitempty" dsl:"choice"`
	// Outputs are the outputs of inline steps. A file declares its own.
	Outputs ChildOutputs `json:"outputs,omitempty" dsl:"names"`
	// Source is the document of steps written here.
	Source string `json:"source,omitempty" dsl:"-"`
}

// ChildOutputs are the outputs of steps written in place. Their expressions see the child.
type ChildOutputs map[string]any

// Document is what to compile when the child runs: a file of the workspace, by name, or else the source of steps written in place.
// Params are checked by the ChildParams of what it compiles to.
func (spec *ChildPipeline) Document() (file string, source []byte) {
	return spec.File, []byte(spec.Source)
}
