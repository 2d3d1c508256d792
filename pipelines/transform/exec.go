package transform

import (
	"errors"

	"github.com/sluiceml/sluice/dsl/transform"
)

// exec compiles an Exec, which has a program answer for the rows.
func (c *Compiled) exec(config transform.Exec, given Deps) (err error) {
	c.prefix = c.name + "/" // its rules are the program's, which may call one as another transform's
	if len(config.Command) == 0 {
		return errors.New("command: set the program to run")
	}
	c.Program, err = given.Shared.Pool(c.name, config)
	return err
}
