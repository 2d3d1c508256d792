package spec

// Run starts the user's own program once. Its outputs are those it declares.
type Run struct {
	Command
	// Script is a bash script (bash -euo pipefail), never interpolated: values reach it through env. Instead of command.
	Script string `json:"script,omitempty" dsl:"raw"`
	// Sluice lets the program call sluice: it is in its PATH then, with the state folder and the store of the run, and with what this
	// process reaches a store in a bucket by. Default: true for a command that is sluice itself, else false.
	Sluice bool `json:"sluice,omitempty" dsl:"literal"`
}

// CallsSluice reports whether the program may call sluice.
func (spec *Run) CallsSluice() bool {
	return spec.Sluice || len(spec.Command.Command) > 0 && spec.Command.Command[0] == "sluice"
}

// CheckProgram reports a step that has neither a script nor a program, as one from an expression may not.
func (spec *Run) CheckProgram() error {
	if spec.Script != "" {
		return nil
	}
	return spec.Command.CheckProgram()
}
