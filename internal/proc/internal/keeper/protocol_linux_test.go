package keeper

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func TestSpecSurvivesTheSocket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Filter(func(s string) bool { return !strings.Contains(s, "\x00") })
		want := Spec{
			Path: text.Draw(t, "path"), Dir: text.Draw(t, "dir"),
			Args: rapid.SliceOf(text).Draw(t, "args"), Env: rapid.SliceOf(text).Draw(t, "env"),
		}
		encoded, err := want.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeSpec(encoded)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("spec (-want +got):\n%s", diff)
		}
	})
}

func FuzzDecodeSpec(f *testing.F) {
	f.Add([]byte("/bin/true\x00\x001\x00true\x00A=1\x00"))
	f.Add([]byte("\x00\x00-1\x00"))
	f.Add([]byte("\x00\x0099999999999999999999\x00"))
	f.Fuzz(func(t *testing.T, body []byte) {
		spec, err := decodeSpec(body)
		if err != nil {
			return
		}
		again, err := spec.Encode()
		if err != nil {
			t.Fatal(err)
		}
		twice, err := decodeSpec(again)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(spec, twice, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("decoded again (-first +second):\n%s", diff)
		}
	})
}

func TestNumbers(t *testing.T) {
	for _, n := range []int{0, 1, -1, 255, 256, 1<<31 - 1, -1 << 31} {
		if got := decodeInt(appendInt(nil, n)); got != n {
			t.Errorf("%d became %d", n, got)
		}
	}
}

func TestUnknownReportIsAnError(t *testing.T) {
	if _, err := ReadReport(bytes.NewReader([]byte("?123456789012"))); err == nil {
		t.Error("accepted")
	}
	if _, err := ReadReport(bytes.NewReader(nil)); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: got %v, want EOF", err)
	}
	if _, err := ReadReport(bytes.NewReader([]byte{started, 0})); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut short: got %v, want ErrUnexpectedEOF", err)
	}
}

// TestReadStatOfAwkwardNames runs a program whose name looks like the fields that follow it.
func TestReadStatOfAwkwardNames(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), ") Z 1 (")
	if err := os.Symlink(sleep, path); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait()
	}()
	parent, dead, ok := ReadStat(cmd.Process.Pid)
	if parent != os.Getpid() || dead || !ok {
		t.Errorf("got %d, %v, %v, want %d, false, true", parent, dead, ok, os.Getpid())
	}
}
