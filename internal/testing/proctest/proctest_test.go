package proctest

import (
	"fmt"
	"io"
	"os"
	"testing"
)

// partVariable makes the test binary make a temporary folder, say where, and wait.
const partVariable = "SLUICE_TEST_PROCTEST"

func TestMain(m *testing.M) {
	if os.Getenv(partVariable) == "" {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	fmt.Println(dir)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// TestKilledLeavesNothing: what a process that is killed had in its temporary folder goes with the test that started it.
func TestKilledLeavesNothing(t *testing.T) {
	var dir string
	t.Run("kills", func(t *testing.T) {
		p := Spawn(t, partVariable, "yes")
		dir = p.Says()
		p.Kill()
		if _, err := os.Stat(dir); err != nil {
			t.Fatal(err)
		}
	})
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", dir, err)
	}
}
