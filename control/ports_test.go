package control

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluiceml/sluice/connect/state"
	"github.com/sluiceml/sluice/connect/state/holder"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
)

// A port in use is a target's own only while somebody holds the state folder that served it.
func TestPortsAreOwnOnlyWhileHeld(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	target := spec.Target{Embedded: &spec.EmbeddedTarget{Port: port}}
	dir := t.TempDir()
	served := fmt.Sprintf(`{"production": {"embedded": {"port": %d}}}`, port)
	if err := os.WriteFile(filepath.Join(dir, state.TargetsFile), []byte(served), 0o600); err != nil {
		t.Fatal(err)
	}
	if errs := CheckPorts(dir, "production", target); len(errs) != 1 || fault.TypeOf(errs[0]) != fault.Invalid {
		t.Errorf("nobody holds the folder: %v, want an error of type invalid", errs)
	}
	held, err := holder.Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := held.Publish(holder.Info{PID: os.Getpid()}); err != nil {
		t.Fatal(err)
	}
	if errs := CheckPorts(dir, "production", target); len(errs) > 0 {
		t.Errorf("a process holds the folder: %v", errs)
	}
	if err := held.Release(); err != nil {
		t.Fatal(err)
	}
	if errs := CheckPorts(dir, "production", target); len(errs) == 0 {
		t.Error("the holder has ended, and the port in use still counts as its own")
	}
}
