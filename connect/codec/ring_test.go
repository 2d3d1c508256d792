package codec

import (
	"crypto/sha256"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// keyOf is the key that the tests give to an id.
func keyOf(id string) string {
	sum := sha256.Sum256([]byte(id))
	return base64.StdEncoding.EncodeToString(sum[:])
}

func TestReadRing(t *testing.T) {
	secret := keyOf("a")
	for _, tt := range []struct {
		name, text string
		mode       os.FileMode
		want       string // of the error; "" for none
	}{
		{name: "good", text: "# keys\n\n a  " + secret + "  \nb " + keyOf("b") + "\n", mode: 0o600},
		{name: "read-only", text: "a " + secret, mode: 0o400},
		{name: "group can read", text: "a " + secret, mode: 0o640, want: "chmod 600"},
		{name: "all can read", text: "a " + secret, mode: 0o604, want: "chmod 600"},
		{name: "empty", text: "# nothing\n", mode: 0o600, want: "sluice codec key"},
		{name: "key alone", text: secret, mode: 0o600, want: "line 1"},
		{name: "short key", text: "a " + secret[:40], mode: 0o600, want: `line 1: key "a" is not 32 bytes`},
		{name: "no base64", text: "\na " + secret + "!", mode: 0o600, want: "line 2"},
		{name: "bad id", text: "a/b " + secret, mode: 0o600, want: "the ID may have"},
		{name: "twice", text: "a " + secret + "\na " + keyOf("b"), mode: 0o600, want: `line 2: key "a" is listed twice`},
		{name: "three words", text: "a b " + secret, mode: 0o600, want: "line 1"},
		{name: "too large", text: strings.Repeat("#\n", maxKeyFile), mode: 0o600, want: "bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "keys")
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, tt.mode); err != nil {
				t.Fatal(err)
			}
			ring, err := ReadRing(path)
			switch {
			case tt.want == "" && (err != nil || ring.active != "a" || ring.path != path):
				t.Errorf("got %+v, %v", ring, err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path)):
				t.Errorf("got %v, want %q and the path", err, tt.want)
			case err != nil && strings.Contains(err.Error(), secret[:12]):
				t.Errorf("the error quotes the key: %v", err)
			}
		})
	}
	if _, err := ReadRing(filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), KeysVariable) {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := ReadRing(t.TempDir()); err == nil {
		t.Error("a folder was read")
	}
}

func TestNewKey(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	one, other := NewKey(now), NewKey(now)
	if one == other {
		t.Error("the same key twice")
	}
	ring, err := parseRing([]byte(one + "\n" + other + "\n"))
	if err != nil || len(ring.keys) != 2 || !strings.HasPrefix(ring.active, "2026-03-01-") {
		t.Errorf("a file of two new keys is %+v, %v", ring, err)
	}
}
