package kserve

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/internal/artifact"
)

func TestTargetName(t *testing.T) {
	for target, want := range map[string]string{
		"production":               "production",
		"spam-filter":              "spam-filter",
		"a23456789b123456789c1234": "a23456789b123456789c1234",
	} {
		if got := targetName(target); got != want {
			t.Errorf("%s becomes %s, want %s", target, got, want)
		}
	}
	valid := regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)
	rapid.Check(t, func(t *rapid.T) {
		targets := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z][a-z0-9_-]{0,62}`), 2, 5, rapid.ID[string]).Draw(t, "targets")
		seen := map[string]string{}
		for _, target := range targets {
			name := targetName(target)
			if !valid.MatchString(name) || len(name) > maxTarget {
				t.Fatalf("%s becomes %q", target, name)
			}
			if other, there := seen[name]; there {
				t.Fatalf("%s and %s both become %s", target, other, name)
			}
			seen[name] = target
		}
	})
}

// promise: docs/kserve.md#p-ks-layout
func TestLayoutONNX(t *testing.T) {
	for name, tc := range map[string]struct {
		files []string
		want  []string // where = what
		fails string
	}{
		"one file": {files: []string{"spam.onnx"}, want: []string{"model.onnx = spam.onnx"}},
		"with weights": {files: []string{"README.md", "export/net.onnx", "export/net.onnx.data", "export/vocab/words.txt"}, want: []string{
			"model.onnx = export/net.onnx", "net.onnx.data = export/net.onnx.data", "vocab/words.txt = export/vocab/words.txt",
		}},
		"no model":   {files: []string{"model.pt"}, fails: "no .onnx file"},
		"two models": {files: []string{"a.onnx", "b.onnx"}, fails: "several .onnx files, a.onnx and b.onnx"},
	} {
		t.Run(name, func(t *testing.T) {
			var m artifact.Manifest
			for _, path := range tc.files {
				m.Files = append(m.Files, artifact.File{Path: path})
			}
			files, err := layoutONNX(m)
			if err != nil || tc.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fails) {
					t.Errorf("got %v, want %q", err, tc.fails)
				}
				return
			}
			var got []string
			for at, f := range files {
				got = append(got, at+" = "+f.Path)
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
