package helper

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sluiceml/sluice/training/gpu"
	"github.com/sluiceml/sluice/training/gpu/gputest"
	"github.com/sluiceml/sluice/training/gpu/nvml"
)

// TestMain lets this test's own executable play sluice-gpu, on the machine of gputest.
func TestMain(m *testing.M) {
	if gputest.Plays() {
		os.Exit(gputest.Main(nvml.Main))
	}
	goleak.VerifyTestMain(m)
}

func TestInspect(t *testing.T) {
	t.Setenv(gputest.Variable, t.TempDir())
	inv, err := Inspect(t.Context(), os.Args[0])
	if err != nil || inv.Source != gpu.SourceNVML || len(inv.GPUs) != 8 || inv.Affinity(0, 7) == 0 {
		t.Errorf("%d GPUs from %s, %v", len(inv.GPUs), inv.Source, err)
	}
}

func TestWatch(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(gputest.Variable, dir)
	ctx, cancel := context.WithCancel(t.Context())
	reports, over := make(chan gpu.Report, 1000), make(chan error, 1)
	go func() {
		over <- Watch(ctx, os.Args[0], gputest.UUIDs(2, 3), 10*time.Millisecond, func(r gpu.Report) { reports <- r })
	}()
	if r := <-reports; len(r.Readings) != 2 || r.Readings[1].UUID != "GPU-3" || *r.Readings[1].Utilization != 0.9 {
		t.Errorf("report %+v", r)
	}
	gputest.Raise(t, dir, 3, 119)
	for r := range reports {
		if r.Event != nil {
			if r.Event.XID != 119 || r.Event.UUID != "GPU-3" {
				t.Errorf("event %+v", r.Event)
			}
			break
		}
	}
	cancel()
	if err := <-over; err != nil {
		t.Error(err)
	}
}

// A program that ends by itself, or is killed, is an error that says so.
func TestWatchEnds(t *testing.T) {
	t.Setenv(gputest.Variable, t.TempDir())
	err := Watch(t.Context(), os.Args[0], []string{"GPU-9"}, time.Second, func(gpu.Report) {})
	if err == nil || !strings.Contains(err.Error(), "this machine has no GPU GPU-9") {
		t.Errorf("%v", err)
	}
	var once sync.Once
	err = Watch(t.Context(), os.Args[0], nil, time.Millisecond, func(gpu.Report) { once.Do(func() { killPlayer(t) }) })
	if err == nil || !strings.Contains(err.Error(), "signal 9") {
		t.Errorf("killed: %v", err)
	}
}

// fake is a program that is not what it should be.
func fake(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), Name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// A program that hangs, fails, or is of another build is an error that says so, and leaves nothing behind.
func TestInspectFails(t *testing.T) {
	for _, tt := range []struct{ name, script, want string }{
		{"hangs, and has started another", "sleep 4711 & wait", "did not answer within 1s"},
		{"ignores that it is to end", "trap '' TERM; while :; do sleep 4711; done", "did not answer within 1s"},
		{"fails", "echo 'sluice-gpu: no' >&2; exit 3", "sluice-gpu ended with exit code 3: no"},
		{"dies", "kill -SEGV $$", "signal 11"},
		{"prints no JSON", "echo usage: something else", `printed no inventory but "usage: something else`},
		{"prints other JSON", "echo '{}'", `printed no inventory but "{}`},
		{"prints without end", "while :; do printf '%01000d' 7; done", "without a line break"},
		{"cannot be run", "", "exec format error"},
		{"is not there", "gone", "no such file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := fake(t, tt.script)
			if tt.script == "" {
				if err := os.WriteFile(path, []byte("\x7fELF"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if tt.script == "gone" {
				path += "-gone"
			}
			limit := time.Minute
			if strings.Contains(tt.want, "1s") {
				limit = time.Second
			}
			if inv, err := inspect(t.Context(), path, limit); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%+v, %v, want %q", inv, err, tt.want)
			}
		})
	}
	if left := running(t, "sleep\x004711\x00"); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

// The two programs may be of different builds: one that cannot be understood is not.
func TestOtherFormat(t *testing.T) {
	t.Setenv(gputest.Variable, t.TempDir())
	for _, command := range []string{"inventory", "watch"} {
		_, err := output(t.Context(), time.Minute, os.Args[0], command, "--format=7")
		if err == nil || !strings.Contains(err.Error(), "it prints format 1, but format 7 was requested") {
			t.Errorf("%s: %v", command, err)
		}
	}
}

func TestWatchFails(t *testing.T) {
	report := `echo '{"at":"2026-01-02T03:04:05Z"}'`
	for _, tt := range []struct{ name, script, want string }{
		{"hangs at once", "sleep 4711", "printed nothing for 1s"},
		{"hangs after a while", report + "; sleep 4711", "printed nothing for 1s"},
		{"dies after a while", report + "; kill -SEGV $$", "signal 11"},
		{"prints no JSON", report + "; echo rubbish; sleep 4711", `printed no report but "rubbish"`},
		{"prints other JSON", "echo '{}'; sleep 4711", `printed no report but "{}"`},
		{"prints no line", "while :; do printf '%01000d' 7; done", "without a line break"},
		{"ends", report, "ended with exit code 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			silence := time.Minute
			if strings.Contains(tt.want, "1s") {
				silence = time.Second
			}
			err := watch(t.Context(), fake(t, tt.script), nil, time.Second, silence, func(gpu.Report) {})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	if left := running(t, "sleep\x004711\x00"); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

// The program is told nothing of Sluice, such as an agent's token.
func TestEnvironment(t *testing.T) {
	t.Setenv("SLUICE_TOKEN", "secret")
	out, err := output(t.Context(), time.Minute, fake(t, "env"))
	if err != nil || strings.Contains(string(out), "SLUICE_TOKEN") || !strings.Contains(string(out), "PATH=") {
		t.Errorf("%s, %v", out, err)
	}
}

// running are the processes with these arguments.
func running(t *testing.T, cmdline string) []string {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(paths, func(path string) bool {
		args, _ := os.ReadFile(path)
		return !strings.HasSuffix(string(args), cmdline)
	})
}

// killPlayer kills the process that plays sluice-gpu for this test.
func killPlayer(t *testing.T) {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	want := gputest.Variable + "=" + os.Getenv(gputest.Variable) + "\x00"
	for _, path := range paths {
		environ, _ := os.ReadFile(path)
		args, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if strings.Contains(string(environ), want) && strings.Contains(string(args), "\x00watch\x00") {
			var pid int
			if _, err := fmt.Sscanf(path, "/proc/%d/", &pid); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}

// installSMI puts a stand-in for nvidia-smi in PATH, and nothing else.
func installSMI(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if script == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(dir, smi), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
}

const smiPrints = `case "$1" in
*mig.mode*) echo '0, GPU-a, NVIDIA L4, 23034, 550.54.15, 00000000:31:00.0, [N/A]
1, GPU-b, NVIDIA A100-SXM4-40GB, 40960, 550.54.15, 00000000:41:00.0, Enabled' ;;
*) echo '0, GPU-a, NVIDIA L4, 23034, 512, 7, 41, 31.25, 72.00
1, GPU-b, NVIDIA A100-SXM4-40GB, 40960, 600, [N/A], 35, 60.10, 400.00' ;;
esac`

// Where the program is missing, nvidia-smi is asked.
func TestSMI(t *testing.T) {
	installSMI(t, smiPrints)
	inv, err := Inspect(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	want := gpu.Inventory{Source: gpu.SourceSMI, Driver: "550.54.15", GPUs: []gpu.GPU{
		{Index: 0, UUID: "GPU-a", Model: "NVIDIA L4", Memory: 23034 << 20, PCI: "00000000:31:00.0", NUMA: -1},
		{Index: 1, UUID: "GPU-b", Model: "NVIDIA A100-SXM4-40GB", Memory: 40960 << 20, PCI: "00000000:41:00.0", NUMA: -1, MIG: true},
	}}
	if diff := cmp.Diff(want, inv); diff != "" {
		t.Errorf("inventory (-want +got):\n%s", diff)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var got []gpu.Reading
	err = Watch(ctx, "", nil, time.Millisecond, func(r gpu.Report) { got = r.Readings; cancel() })
	share := 0.07
	readings := []gpu.Reading{
		{UUID: "GPU-a", Model: "NVIDIA L4", Memory: 23034 << 20, MemoryUsed: 512 << 20, Utilization: &share, Temperature: 41, Power: 31.25, PowerLimit: 72},
		{UUID: "GPU-b", Index: 1, Model: "NVIDIA A100-SXM4-40GB", Memory: 40960 << 20, MemoryUsed: 600 << 20, Temperature: 35, Power: 60.1, PowerLimit: 400},
	}
	if diff := cmp.Diff(readings, got); diff != "" || err != nil {
		t.Errorf("readings (-want +got), %v:\n%s", err, diff)
	}
}

// A driver that does not work is not the same as none.
func TestSMIFails(t *testing.T) {
	installSMI(t, "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18")
	if inv, err := Inspect(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "exit code 18: Failed to initialize NVML: Driver/library version mismatch") {
		t.Errorf("%+v, %v", inv, err)
	}
	installSMI(t, "exit 0")
	if inv, err := Inspect(t.Context(), ""); err != nil || inv.Absent != "nvidia-smi lists none" {
		t.Errorf("%+v, %v", inv, err)
	}
}

func TestNothingInstalled(t *testing.T) {
	installSMI(t, "")
	if inv, err := Inspect(t.Context(), ""); err != nil || inv.Absent != "neither sluice-gpu nor nvidia-smi is installed" {
		t.Errorf("%+v, %v", inv, err)
	}
	installSMI(t, "echo 'NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver.' >&2; exit 9")
	if inv, err := Inspect(t.Context(), ""); err != nil || !strings.Contains(inv.Absent, "could not communicate with the NVIDIA driver") {
		t.Errorf("%+v, %v", inv, err)
	}
	if err := Watch(t.Context(), "", nil, time.Second, func(gpu.Report) {}); err == nil || !strings.Contains(err.Error(), "could not communicate") {
		t.Errorf("%v", err)
	}
}
