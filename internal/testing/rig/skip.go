package rig

import (
	"os"
	"testing"
)

// Skip skips a test for want of what `make test` provides. Where that says that all is there ($SLUICE_TEST_ALL), the test fails instead:
// one that is skipped unnoticed holds nothing.
func Skip(t testing.TB, why ...any) {
	t.Helper()
	if os.Getenv("SLUICE_TEST_ALL") != "" {
		t.Fatal(why...)
	}
	t.Skip(why...)
}
