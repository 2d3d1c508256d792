package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/store"
)

func TestWhatIsNotAFileIsRefused(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		make func(path string) error
		why  string
	}{
		"absolute link out":  {func(path string) error { return os.Symlink(secret, path) }, "is a symbolic link that is absolute or leads out of the folder"},
		"relative link out":  {func(path string) error { return os.Symlink("../../../../../../../../etc/passwd", path) }, "is a symbolic link that is absolute or leads out of the folder"},
		"broken link":        {func(path string) error { return os.Symlink("nothing", path) }, "is a symbolic link to a file that does not exist"},
		"link to itself":     {func(path string) error { return os.Symlink(filepath.Base(path), path) }, "is a symbolic link that leads back to itself"},
		"link to the folder": {func(path string) error { return os.Symlink(".", path) }, "is a symbolic link to a folder, and such links are not followed"},
		"named pipe":         {func(path string) error { return syscall.Mkfifo(path, 0o600) }, "is a named pipe"},
		"link to a pipe": {func(path string) error {
			return errors.Join(syscall.Mkfifo(path+".pipe", 0o600), os.Symlink(filepath.Base(path)+".pipe", path))
		}, "is a symbolic link to a named pipe"},
		"socket": {func(path string) error {
			fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
			if err != nil {
				return err
			}
			return errors.Join(syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}), syscall.Close(fd))
		}, "is a socket"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := tree(t, sample)
			if err := tt.make(filepath.Join(dir, "train", "odd")); err != nil {
				t.Fatal(err)
			}
			s := open(t, "mem://"+t.TempDir())
			_, err := s.PutTree(t.Context(), artifact.Dataset, dir, nil, nil)
			wantIrregular(t, err, store.IrregularError{Path: "train/odd", Why: tt.why})
		})
	}
}

// The list of an artifact's files is JSON, which has no other names.
func TestNamesAreUTF8(t *testing.T) {
	const why = "has a name that is not valid UTF-8"
	for name, tt := range map[string]struct{ file, path, shown string }{
		"file":             {"train/caf\xe9.txt", "train/caf\xe9.txt", `"train/caf\xe9.txt"`},
		"file in a folder": {"caf\xe9/a/b", "caf\xe9", `"caf\xe9"`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tree(t, sample)
			file := filepath.Join(dir, tt.file)
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
			_, err := store.ListTree(t.Context(), dir, nil)
			wantIrregular(t, err, store.IrregularError{Path: tt.path, Why: why})
			if err == nil || !strings.Contains(err.Error(), tt.shown+" "+why) {
				t.Errorf("got %v, want an error that shows %s", err, tt.shown)
			}
			ignored := func(path string) bool { return path == tt.path }
			if _, err := store.ListTree(t.Context(), dir, ignored); err != nil {
				t.Errorf("with the path left out: %v", err)
			}
		})
	}
}

func wantIrregular(t *testing.T, err error, want store.IrregularError) {
	t.Helper()
	got := new(store.IrregularError)
	if !errors.As(err, &got) {
		t.Fatalf("got %v, want %v", err, &want)
	}
	if diff := cmp.Diff(want, *got); diff != "" {
		t.Errorf("what cannot be stored (-want +got):\n%s", diff)
	}
}
