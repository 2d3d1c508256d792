package layout

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/internal/artifact"
)

func TestONNX(t *testing.T) {
	for name, tc := range map[string]struct {
		files []string
		want  []string // where = what
		fails string
	}{
		"one file": {files: []string{"spam.onnx"}, want: []string{"m/1/model.onnx = spam.onnx"}},
		"with weights": {files: []string{"README.md", "export/net.onnx", "export/net.onnx.data", "export/vocab/words.txt"}, want: []string{
			"m/1/model.onnx = export/net.onnx", "m/1/net.onnx.data = export/net.onnx.data", "m/1/vocab/words.txt = export/vocab/words.txt",
		}},
		"no model":   {files: []string{"model.pt"}, fails: "no .onnx file"},
		"two models": {files: []string{"a.onnx", "b.onnx"}, fails: "several .onnx files, a.onnx and b.onnx"},
	} {
		t.Run(name, func(t *testing.T) {
			var m artifact.Manifest
			for _, path := range tc.files {
				m.Files = append(m.Files, artifact.File{Path: path})
			}
			r, err := ONNX("m", m)
			if err != nil || tc.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fails) {
					t.Errorf("got %v, want %q", err, tc.fails)
				}
				return
			}
			var got []string
			for at, f := range r.Files {
				got = append(got, at+" = "+f.Path)
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
