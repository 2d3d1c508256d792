package store_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/store"
)

// A part names its objects without its own prefix, and sees no others.
func TestPartIsADriver(t *testing.T) {
	s := open(t, "mem://"+t.TempDir())
	d := s.Part("a").Driver()
	for _, key := range []string{"x/1", "x/2", "y"} {
		if err := d.Write(t.Context(), key, strings.NewReader(key), store.WriteOptions{LinkAs: "also/" + key}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Part("ab").Driver().Write(t.Context(), "x/3", strings.NewReader("other"), store.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Delete(t.Context(), "x/1"), d.Sync(t.Context(), []string{"x/2"})); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for info, err := range d.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	if diff := cmp.Diff([]string{"also/x/1", "also/x/2", "also/y", "x/2", "y"}, keys); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	if info, err := d.Stat(t.Context(), "x/2"); err != nil || info.Key != "x/2" || info.Bytes != 3 {
		t.Errorf("%+v, %v", info, err)
	}
	if _, err := d.Read(t.Context(), "x/1"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("what was deleted: %v", err)
	}
}

// What is in a part is no record, is no garbage, and goes with the part.
func TestPart(t *testing.T) {
	s := open(t, "file://"+t.TempDir())
	if _, _, err := s.Part("runs/one").PutBlob(t.Context(), strings.NewReader("same")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Part("runs/two").PutBlob(t.Context(), strings.NewReader("same")); err != nil {
		t.Fatal(err)
	}
	digest, _, err := s.PutBlob(t.Context(), strings.NewReader("same"))
	if err != nil {
		t.Fatal(err)
	}
	garbage, err := s.Garbage(t.Context(), time.Now().Add(time.Hour))
	if err != nil || len(garbage) != 1 || !strings.HasPrefix(garbage[0].Key, "blobs/") {
		t.Errorf("garbage %v, %v, want the blob outside of the parts", garbage, err)
	}
	if err := s.RemovePart(t.Context(), "runs/one"); err != nil {
		t.Fatal(err)
	}
	for name, part := range map[string]*store.Store{"one": s.Part("runs/one"), "two": s.Part("runs/two"), "": s} {
		if has, err := part.HasBlob(t.Context(), digest); err != nil || has == (name == "one") {
			t.Errorf("part %q has it: %v, %v", name, has, err)
		}
	}
}
