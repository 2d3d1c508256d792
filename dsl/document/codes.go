package document

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/internal/suggest"
)

// Code is what a finding's code means.
type Code struct {
	Name  string `json:"code" yaml:"code"`
	Title string `json:"title" yaml:"title"`
	// Text says why it is refused, or warned of, and what to do.
	Text string `json:"text" yaml:"text"`
	// Wrong is an example that has the finding and Right the same without it: the body of `steps`, or a whole document. Both are
	// empty for a finding that needs more than a few lines.
	Wrong string `json:"wrong,omitempty" yaml:"wrong"`
	Right string `json:"right,omitempty" yaml:"right"`
}

//go:embed codes.yaml
var codesSource []byte

var readCodes = sync.OnceValue(func() []Code {
	var codes []Code
	if err := yaml.Unmarshal(codesSource, &codes); err != nil {
		panic(fmt.Sprintf("dsl: codes.yaml: %v", err)) // a mistake in this package, found by any test
	}
	slices.SortFunc(codes, func(a, b Code) int { return strings.Compare(a.Name, b.Name) })
	return codes
})

// Codes lists all codes of findings by name.
func Codes() []Code { return slices.Clone(readCodes()) }

// Explain returns what a code means. When there is no such code, near is the one most like it, or empty.
func Explain(name string) (code Code, near string, ok bool) {
	codes := readCodes()
	if i, found := slices.BinarySearchFunc(codes, name, func(c Code, name string) int { return strings.Compare(c.Name, name) }); found {
		return codes[i], "", true
	}
	names := make([]string, len(codes))
	for i, c := range codes {
		names[i] = c.Name
	}
	return Code{}, suggest.To(name, names), false
}
