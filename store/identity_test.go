package store_test

import (
	"regexp"
	"testing"

	"github.com/sluiceml/sluice/store"
)

// TestIdentity: a store has one name, whoever asks for it first, and another store has another.
func TestIdentity(t *testing.T) {
	names := map[string]bool{}
	for _, url := range []string{"file://" + t.TempDir(), "file://" + t.TempDir()} {
		for range 2 {
			s, err := store.Open(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			name, err := s.Identity(t.Context())
			if err != nil || !regexp.MustCompile(`^[0-9a-f]{8}$`).MatchString(name) {
				t.Errorf("%q, %v", name, err)
			}
			names[name] = true
		}
	}
	if len(names) != 2 {
		t.Errorf("two stores have the names %v", names)
	}
}
