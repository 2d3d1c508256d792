package control

import (
	"os"
	"path/filepath"
	"regexp"

	"github.com/sluiceml/sluice/internal/inherit"
)

// Withheld returns the variables of this process that programs of a pipeline may expect and do not get, sorted: none that the pipeline sets.
func Withheld(pipelineFile string) ([]string, error) {
	source, err := ReadDocument(pipelineFile)
	if err != nil {
		return nil, err
	}
	return inherit.Withheld(os.Environ(), string(source), filepath.Dir(pipelineFile), func(variable string) bool {
		return inherit.Inheritable(variable) || regexp.MustCompile(`\b`+regexp.QuoteMeta(variable)+`["']?\s*:`).Match(source)
	}), nil
}
