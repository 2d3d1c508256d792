package pipelines

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines/format"
)

func TestFindSources(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "[a] *") // a folder may have any name
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]int64{"b": 2*format.UnitSize + 10, "a": 10, "c": 0} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(filepath.Join(dir, name), size); err != nil {
			t.Fatal(err)
		}
	}
	files, err := format.Find(t.Context(), spec.Paths{filepath.Join(dir, "*")})
	if err != nil {
		t.Fatal(err)
	}
	from, err := format.CompileReadJSON(transform.ReadFromJSON{})
	if err != nil {
		t.Fatal(err)
	}
	units, err := cutSources(t.Context(), from.Format, files)
	if err != nil {
		t.Fatal(err)
	}
	var got [][]format.Piece
	for _, u := range units {
		got = append(got, u.Pieces)
		for i := range u.Pieces {
			u.Pieces[i].File.Path = ""
			u.Pieces[i].File.Size = 0
			u.Pieces[i].File.Stamp = format.Stamp{}
		}
	}
	want := [][]format.Piece{
		{{File: format.File{Name: "a"}, Start: 0, End: 10}},
		{{File: format.File{Name: "b"}, Start: 0, End: format.UnitSize}},
		{{File: format.File{Name: "b"}, Start: format.UnitSize, End: 2 * format.UnitSize}},
		{{File: format.File{Name: "b"}, Start: 2 * format.UnitSize, End: 2*format.UnitSize + 10}, {File: format.File{Name: "c"}, Start: 0, End: 0}},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(format.File{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
