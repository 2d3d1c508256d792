package spec

// Run runs the user's own program once. Its outputs are declared in the step.
type Run struct {
	Command
	Placement
	// Script is a bash script (bash -euo pipefail), instead of command. `${...}` is not expanded in it: pass values through env.
	Script string `json:"script,omitempty" dsl:"raw"`
	// Sluice lets the program call sluice: sluice is then in its PATH, and the program gets the state folder and the store of the run, and
	// the credentials of a store in a bucket. Default: true if the command is sluice itself, else false.
	Sluice bool `json:"sluice,omitempty" dsl:"literal"`
}

// CallsSluice reports whether the program may call sluice.
func (spec *Run) CallsSluice() bool {
	return spec.Sluice || len(spec.Command.Command) > 0 && spec.Command.Command[0] == "sluice"
}

// Complete drops what does not apply.
func (spec *Run) Complete() { spec.clear() }

// Program is the command of the step: bash with its script, if it has one.
func (spec *Run) Program() Command {
	command := spec.Command
	if spec.Script != "" {
		command.Command = []string{"bash", "-euo", "pipefail", "-c", spec.Script}
	}
	return command
}

// Train is the training of one node that does what the step asks for; it has pools.
func (spec *Run) Train() Train { return spec.train(spec.Program(), nil) }

// Check reports a step that has neither a script nor a program, as one from an expression may not.
func (spec *Run) Check() error {
	if spec.Script != "" {
		return nil
	}
	return spec.Command.Check()
}
