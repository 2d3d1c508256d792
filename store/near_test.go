package store_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/store"
)

// TestNear: files that are on the machine are linked once their content is verified, and the others are fetched.
func TestNear(t *testing.T) {
	files := map[string]file{"same": {Content: "twice"}, "twin": {Content: "twice", Exec: true}, "deep/kept": {Content: "kept"}, "changed": {Content: "as it was"}}
	var near store.Near
	whole := openMemStore(t).Near(&near)
	for _, s := range []*store.Store{whole, whole.Part("p")} {
		ref, err := s.PutTree(t.Context(), artifact.Checkpoint, tree(t, files), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		near.Forget(os.TempDir())
		first, second := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second")
		if err := s.Fetch(t.Context(), ref, first); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(first, "changed"), []byte("not any more"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.Fetch(t.Context(), ref, second); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(files, readTree(t, second)); diff != "" {
			t.Errorf("what was fetched (-want +got):\n%s", diff)
		}
		if got, want := linked(t, first, second), []string{"deep/kept", "same", "twin"}; !slices.Equal(got, want) {
			t.Errorf("linked are %v, want %v", got, want)
		}
		near.Forget(second)
		third := filepath.Join(t.TempDir(), "third")
		if err := s.Fetch(t.Context(), ref, third); err != nil {
			t.Fatal(err)
		}
		if got := linked(t, second, third); len(got) > 0 {
			t.Errorf("linked are %v, which were to be forgotten", got)
		}
	}
}

// linked lists the files of a tree that are also in another, under whatever names.
func linked(t *testing.T, from, to string) []string {
	t.Helper()
	var names []string
	for name := range readTree(t, to) {
		b, err := os.Stat(filepath.Join(to, name))
		if err != nil {
			t.Fatal(err)
		}
		for other := range readTree(t, from) {
			if a, err := os.Stat(filepath.Join(from, other)); err == nil && os.SameFile(a, b) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

func openMemStore(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), "mem://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}
