package state

import (
	"path/filepath"
	"testing"
)

// TestStoreVariable: the store may be elsewhere than in the state folder.
func TestStoreVariable(t *testing.T) {
	state, elsewhere := t.TempDir(), "file://"+t.TempDir()
	for variable, want := range map[string]string{"": "file://" + filepath.Join(state, "store"), elsewhere: elsewhere} {
		t.Setenv(StoreVariable, variable)
		s, err := OpenStore(t.Context(), state)
		if err != nil || s.URL() != want {
			t.Errorf("%s=%s: got %v, %v, want %s", StoreVariable, variable, s, err, want)
		}
	}
}
