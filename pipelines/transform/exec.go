package transform

import (
	"errors"

	"github.com/sluiceml/sluice/dsl/transform"
)

// exec compiles an Exec, which passes rows to a program.
func (c *Compiled) exec(config transform.Exec, given Deps) (err error) {
	c.prefix = c.name + "/" // the program chooses its rules' names, which may also be those of another transform
	if len(config.Command) == 0 {
		return errors.New("command: set the program to run")
	}
	c.Program, err = given.Shared.Pool(c.name, config)
	return err
}
