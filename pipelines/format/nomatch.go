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
			help = "\nhelp: it is a folder; to read the files in it, write " + strings.TrimRight(pattern, "/") + "/*"
		} else if literal := literalPattern(pattern); literal != pattern {
			help = "\nhelp: * ? and [] are wildcards; to read the file with exactly this name, write " + literal
		}
	}
	return fault.Errorf(fault.User, "no file matches %s%s", pattern, help)
}

// literalPattern is the pattern that matches a name alone.
func literalPattern(name string) string {
	return strings.NewReplacer(`[`, `[[]`, `*`, `[*]`, `?`, `[?]`, `\`, `\\`).Replace(name)
}
