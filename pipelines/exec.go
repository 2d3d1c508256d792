package pipelines

import (
	"errors"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/pipelines/program"
)

// compileExec has a program answer for the rows.
func compileExec(t dsl.Transform, p *programs) (*program.Pool, error) {
	c, err := decodeConfig[dsl.Exec](t)
	if err != nil {
		return nil, err
	}
	if len(c.Command) == 0 {
		return nil, errors.New("command: say what to run")
	}
	return p.pool(t.Name, c)
}
