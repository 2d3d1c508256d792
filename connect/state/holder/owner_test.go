package holder

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAnotherUsersFolderIsNamed: the error of a file that another user made says whose it is, and how it is given back.
func TestAnotherUsersFolderIsNamed(t *testing.T) {
	dir := t.TempDir()
	if os.Geteuid() != 0 {
		dir = "/root" // of another user
	} else if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	denied := &fs.PathError{Op: "open", Path: filepath.Join(dir, "missing", "lock"), Err: fs.ErrPermission}
	if got := Explain(dir, denied).Error(); !strings.Contains(got, dir+" belongs to ") || !strings.Contains(got, "`sudo chown -R "+nameOf(uint32(os.Geteuid()))+" "+dir+"`") {
		t.Errorf("it says %q", got)
	}
	for of, err := range map[string]error{t.TempDir(): denied, dir: fs.ErrNotExist} {
		if got := Explain(of, err); got.Error() != err.Error() {
			t.Errorf("another error was changed to %q", got)
		}
	}
}
