package transform

import (
	"errors"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// exec compiles an Exec, which has a program answer for the rows.
func (c *Compiled) exec(t spec.Transform, given Deps) error {
	c.prefix = t.Name + "/" // its rules are the program's, which may call one as another transform's
	config, err := rows.DecodeConfig[transform.Exec](t)
	if err != nil {
		return err
	}
	if len(config.Command) == 0 {
		return errors.New("command: say what to run")
	}
	c.Program, err = given.Shared.Pool(t.Name, config)
	return err
}
