package format

import (
	"os"
	"strings"

	"github.com/sluiceml/sluice/internal/fault"
)

// errNoMatch is the error of a pattern that no file matches. It says what was perhaps meant.
func errNoMatch(pattern string) error {
	help := ""
	if info, err := os.Stat(pattern); !inBucket(pattern) && err == nil {
		if info.IsDir() {
			help = "\nhelp: it is a folder; for the files in it write " + strings.TrimRight(pattern, "/") + "/*"
		} else if literal := literalPattern(pattern); literal != pattern {
			help = "\nhelp: * ? and [] are patterns; for the file of this very name write " + literal
		}
	}
	return fault.Errorf(fault.User, "no file matches %s%s", pattern, help)
}

// literalPattern is the pattern that matches a name alone.
func literalPattern(name string) string {
	return strings.NewReplacer(`[`, `[[]`, `*`, `[*]`, `?`, `[?]`, `\`, `\\`).Replace(name)
}
