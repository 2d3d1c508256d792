package integration

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestInvalidStartsNothing: what the linter refuses leaves no trace.
func TestInvalidStartsNothing(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ old, replacement, says string }{
		"tab":            {"  after:\n", "\tafter:\n", "pipeline.yaml:"},
		"unknown key":    {"needs: {work: passed}", "need: {work: passed}", "needs"},
		"cycle":          {"  work:\n", "  work:\n    needs: [after]\n", "cycle"},
		"missing script": {"run: {script: echo after}", "run: {command: [python3, after.py]}", "after.py"},
		"gate not bool":  {"run: {script: echo after}", "run: {script: echo after}\n    gate: 1 + 1", "bool"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSandbox(t, "program")
			s.edit("pipeline.yaml", test.old, test.replacement)
			run := s.run("script=true").expect(2)
			run.says("pipeline.yaml:", test.says)
			if _, err := os.Stat(s.state); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the state folder is there: %v", err)
			}
		})
	}
}

// TestProgramFails: a program that fails is shown with its last lines and not tried again.
func TestProgramFails(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ script, says, unsaid string }{
		"exit 1":         {"for i in $(seq 30); do echo line $i.; done; exit 1", "line 11.", "line 10."},
		"missing module": {"python3 -c 'import torch_missing'", "ModuleNotFoundError: No module named 'torch_missing'", "goroutine"},
		"no program":     {"exec no-such-program", "no-such-program", "goroutine"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSandbox(t, "program")
			run := s.run("script=" + test.script).expect(3)
			run.says("program: failed", test.says)
			if all := run.stdout.String() + run.stderr.String(); strings.Contains(all, test.unsaid) {
				t.Errorf("%q is said", test.unsaid)
			}
			record := s.show()
			work := record.Steps["work"]
			if record.ErrorType != "user" || work.ErrorType != "user" || work.Attempts.Total != 1 || record.Steps["after"].Status != "upstream" {
				t.Errorf("record: %+v", record)
			}
		})
	}
}

// TestPortInUse: a target whose port is taken is found before anything runs, not after the training.
func TestPortInUse(t *testing.T) {
	t.Parallel()
	s := newRelease(t)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", s.port))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	s.run().expect(2).says(fmt.Sprintf("127.0.0.1:%d", s.port), "in use", "another `port`")
	s.start("show").expect(2).says("there are no runs yet")
}

func TestStateFolderUnwritable(t *testing.T) {
	t.Parallel()
	t.Run("file in its place", func(t *testing.T) {
		s := newSandbox(t, "program")
		write(t, s.state, "")
		s.run("script=true").expect(2).says("the state folder " + s.state + " is not a folder")
	})
	t.Run("read-only", func(t *testing.T) {
		s := newSandbox(t, "program")
		s.mountState("size=1m", syscall.MS_RDONLY)
		s.run("script=true").expect(1).says("state folder "+s.state, "read-only file system")
	})
}

// mountState puts a file system of its own under the state folder.
func (s *sandbox) mountState(options string, flags uintptr) {
	s.t.Helper()
	mountDisk(s.t, s.state, options, flags)
}

// mountDisk makes a folder that is a file system of its own, which takes root.
func mountDisk(t *testing.T, dir, options string, flags uintptr) {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", flags, options); err != nil {
		t.Skipf("a file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// TestFullDisk: a run whose step fills the disk fails and is recorded, and the space is free again.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	sizes := map[string]string{
		"by the program": "100M",
		"by the store":   "20M", // it fits once, and not twice
	}
	for name, size := range sizes {
		t.Run(name, func(t *testing.T) {
			s := newSandbox(t, "program")
			s.edit("pipeline.yaml", `run: {script: 'eval "$SCRIPT"'}`,
				`run: {script: 'eval "$SCRIPT"', outputs: {big: {type: dataset, path: big}}}`+"\n    retry: {attempts: 1}")
			s.mountState("size=36m", 0)
			s.run("script=head -c " + size + ` /dev/urandom > "$SLUICE_OUTPUT_DIR/big"`).expect(1).says("no space left on device")
			if record := s.show(); record.Status != "failed" || record.Steps["work"].Status != "failed" {
				t.Errorf("record: %+v", record)
			}
			s.edit("pipeline.yaml", ", outputs: {big: {type: dataset, path: big}}", "")
			s.run("script=true").expect(0)
		})
	}
}
