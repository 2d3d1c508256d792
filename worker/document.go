package worker

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl"
)

// ReadDocument reads a pipeline or an environment, which is a file: the folder around it is what a run is given. Of one that dsl
// refuses for its size no more is read than it takes to refuse it.
func ReadDocument(path string) (_ []byte, err error) {
	info, err := os.Stat(path) // before it is opened, for the opening of a pipe would wait
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, contract.Error(contract.ErrInvalid, fmt.Sprintf("%s is no file\nhelp: name the YAML file itself", path), nil)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(io.LimitReader(f, dsl.MaxSource+1))
}
