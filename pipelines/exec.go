package pipelines

import (
	"errors"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// exec compiles an Exec, which has a program answer for the rows.
func (c *rowTransform) exec(t dsl.Transform, given givens) error {
	c.prefix = t.Name + "/" // its rules are the program's, which may call one as another transform's
	config, err := rows.DecodeConfig[dsl.Exec](t)
	if err != nil {
		return err
	}
	if len(config.Command) == 0 {
		return errors.New("command: say what to run")
	}
	c.program, err = given.shared.Pool(t.Name, config)
	return err
}
