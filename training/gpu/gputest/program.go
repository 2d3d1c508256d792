//go:build cgo

package gputest

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Variable names the folder by which a test tells a process that plays sluice-gpu what happens to its machine. Agents keep from their
// children what begins with SLUICE.
const Variable = "TEST_GPUS"

// Plays reports whether a test's own executable has been started as sluice-gpu.
func Plays() bool {
	return os.Getenv(Variable) != "" && len(os.Args) > 1 && slices.Contains([]string{"inventory", "watch"}, os.Args[1])
}

// The files of that folder.
const (
	eventFiles  = "event-"  // event-N: "GPU XID", reported once by each process
	utilization = "percent" // of all GPUs
)

// lookEvery is how often a player looks at its folder.
const lookEvery = 20 * time.Millisecond

// Program is the main function of sluice-gpu: that of package gpu/nvml.
type Program func(ctx context.Context, api nvml.Interface, args []string, out io.Writer) error

// Main plays sluice-gpu on such a machine until it is told to end, and reads more often than it is asked to. It returns the exit code.
func Main(program Program) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	m := New()
	go m.follow(ctx, os.Getenv(Variable))
	args := os.Args[1:]
	if i := slices.Index(args, "--every"); i >= 0 {
		args[i+1] = "50ms"
	}
	if err := program(ctx, m, args, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sluice-gpu:", err)
		return 1
	}
	return 0
}

// follow does what the folder says.
func (m *Machine) follow(ctx context.Context, dir string) {
	seen := map[string]bool{}
	for ctx.Err() == nil {
		paths, _ := filepath.Glob(filepath.Join(dir, eventFiles+"*"))
		for _, path := range paths {
			raw, err := os.ReadFile(path)
			var index int
			var xid uint64
			if _, scanErr := fmt.Sscanf(string(raw), "%d %d\n", &index, &xid); err == nil && scanErr == nil && !seen[path] {
				seen[path] = true
				m.Raise(index, xid)
			}
		}
		if raw, err := os.ReadFile(filepath.Join(dir, utilization)); err == nil {
			if percent, err := strconv.ParseUint(strings.TrimSpace(string(raw)), 10, 32); err == nil {
				for i := range m.Devices {
					m.Set(i, func(s *State) { s.Utilization = uint32(percent) })
				}
			}
		}
		time.Sleep(lookEvery)
	}
}

// Raise tells the players of a folder to report an XID.
func Raise(t testing.TB, dir string, index, xid int) {
	t.Helper()
	put(t, dir, fmt.Sprintf("%s%d-%d", eventFiles, index, xid), fmt.Sprintf("%d %d\n", index, xid))
}

// SetUtilization tells them how busy all GPUs are.
func SetUtilization(t testing.TB, dir string, percent int) {
	t.Helper()
	put(t, dir, utilization, strconv.Itoa(percent)+"\n")
}

func put(t testing.TB, dir, name, content string) {
	t.Helper()
	half := filepath.Join(dir, "."+name)
	if err := os.WriteFile(half, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(half, filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}
