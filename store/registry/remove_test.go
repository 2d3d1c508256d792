package registry_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/registry"
)

// A version goes with its tags, and nothing that counts leads to what it held; the current one is refused, and goes with the name.
func TestRemove(t *testing.T) {
	s, err := store.Open(t.Context(), "mem://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	one, two := "sha256:"+strings.Repeat("1", 64), "sha256:"+strings.Repeat("2", 64)
	publish(t, s, version("r1", one, 1))
	publish(t, s, version("r1b", one, 2))
	publish(t, s, version("r2", two, 3))
	other := version("r1", one, 1)
	other.Name = "letters"
	publish(t, s, other)
	for tag, digest := range map[string]string{"golden": one, "newest": two} {
		if err := registry.PutTag(t.Context(), s, artifact.Dataset, registry.Tag{Name: "mail", Tag: tag, Digest: digest}); err != nil {
			t.Fatal(err)
		}
	}
	refs, err := registry.Refs(t.Context(), s, artifact.Dataset)
	wantRefs := map[string]string{"mail": two, "letters": one, "mail@golden": one, "mail@newest": two}
	for name, digest := range wantRefs {
		if refs[name].Digest != digest || refs[name].Type != artifact.Dataset {
			t.Errorf("%s is %+v, want %s", name, refs[name], digest)
		}
	}
	if err != nil || len(refs) != len(wantRefs) {
		t.Errorf("%v, %v", refs, err)
	}
	leadsTo := func(digest string) (keys []string) {
		t.Helper()
		for info, err := range s.Driver().List(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			var record json.RawMessage
			if err := s.GetJSON(t.Context(), info.Key, &record); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(record), digest) && !strings.HasPrefix(info.Key, "forgotten/") {
				keys = append(keys, info.Key)
			}
		}
		return keys
	}
	if err := registry.Remove(t.Context(), s, artifact.Dataset, "mail", two); !errors.Is(err, registry.ErrCurrent) {
		t.Errorf("the current version: %v", err)
	}
	if err := registry.Remove(t.Context(), s, artifact.Dataset, "mail", one); err != nil {
		t.Fatal(err)
	}
	if refs, err := registry.Refs(t.Context(), s, artifact.Dataset); err != nil || refs["mail@golden"].Digest != "" {
		t.Errorf("a tag of what was removed: %v, %v", refs, err)
	}
	want := []string{"history/dataset/letters/0000000001.json", "registry/dataset/letters/r1-clean.json"}
	if diff := cmp.Diff(want, leadsTo(one)); diff != "" {
		t.Errorf("what leads to it (-want +got):\n%s", diff)
	}
	if got := history(t, s); len(got) != 3 || got[1] != "2  by r1b/clean, by hand: false" || current(t, s) != two {
		t.Errorf("current is %s, the history %q", current(t, s), got)
	}
	if err := registry.Remove(t.Context(), s, artifact.Dataset, "mail", ""); err != nil {
		t.Fatal(err)
	}
	if got := leadsTo("mail"); len(got) > 0 || current(t, s) != "" {
		t.Errorf("the name is left in %q", got)
	}
}

// A rollback holds when a step makes a version again that was removed, and a result that is reused does not bring it back.
func TestRollbackOutlivesRemove(t *testing.T) {
	s, err := store.Open(t.Context(), "mem://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	good, bad, late := "sha256:"+strings.Repeat("1", 64), "sha256:"+strings.Repeat("2", 64), "sha256:"+strings.Repeat("3", 64)
	publish(t, s, version("r1", good, 1))
	publish(t, s, version("r2", bad, 3))
	publish(t, s, version("r3", late, 2)) // never the current one
	if err := registry.PointTo(t.Context(), s, version("r1", good, 1), "user:anna", "", day.Add(4*time.Minute)); err != nil {
		t.Fatal(err)
	}
	for _, digest := range []string{bad, late} {
		if err := registry.Remove(t.Context(), s, artifact.Dataset, "mail", digest); err != nil {
			t.Fatal(err)
		}
	}
	reused := version("r2", bad, 5)
	reused.By = "r5"
	if registered, _, err := registry.Publish(t.Context(), s, reused); registered || err != nil {
		t.Errorf("the reused result is registered: %v, %v", registered, err)
	}
	for i, digest := range []string{bad, late} {
		registered, behind, err := registry.Publish(t.Context(), s, version("again"+digest[7:8], digest, 6+i))
		if !registered || behind == "" || err != nil || current(t, s) != good {
			t.Errorf("%s made again: registered %v, %q, %v, current is %s", digest, registered, behind, err, current(t, s))
		}
	}
	if publish(t, s, version("r9", "sha256:"+strings.Repeat("4", 64), 9)); current(t, s) == good {
		t.Error("a version that the name never had does not become the current one")
	}
}
