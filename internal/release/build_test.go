package release

import (
	"regexp"
	"testing"
)

// Without a name, a worker would start by reading its whole program.
func TestBuildIsNamed(t *testing.T) {
	if got := Build(); !regexp.MustCompile(`^[0-9a-f]{40}$`).MatchString(got) {
		t.Errorf("the build is %q, want the linker's ID in hexadecimal", got)
	}
}
