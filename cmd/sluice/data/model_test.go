package data

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/store"
)

// TestASourceServesAsItsVariant: a target that has a variant of a model has that model, too.
func TestASourceServesAsItsVariant(t *testing.T) {
	s, err := store.Open(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	put := func(content string, meta map[string]string) artifact.Ref {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "model.onnx"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		ref, err := s.PutTree(t.Context(), artifact.Model, dir, meta, nil)
		if err != nil {
			t.Fatal(err)
		}
		return ref
	}
	source, other := put("fp32", nil), put("other", nil)
	quantized := put("int8", map[string]string{spec.MetaVariant: "int8", spec.MetaSource: source.Digest})
	release := func(version string, model artifact.Ref, weight float64) routing.Release {
		return routing.Release{Version: version, Model: model, Run: "r" + version, Step: "ship", Weight: weight}
	}
	doc := routing.Document{Target: "spam", Versions: 2, Releases: []routing.Release{release("1", other, 0.75), release("2", quantized, 0.25)}}
	if _, err := routing.Set(t.Context(), s, 0, doc); err != nil {
		t.Fatal(err)
	}
	served, err := servedModels(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for digest, at := range served {
		got[digest] = at[0].String()
	}
	want := map[string]string{source.Digest: "spam 25% as int8", quantized.Digest: "spam 25%", other.Digest: "spam 75%"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("models served (-want +got):\n%s", diff)
	}
	for digest, want := range map[string]string{source.Digest: "2 (int8)", quantized.Digest: "2", other.Digest: "1"} {
		if all, err := modelReleases(t.Context(), s, digest); err != nil || len(all) != 1 || all[0].name() != want {
			t.Errorf("releases %+v, %v, want release %s", all, err, want)
		}
	}
}
