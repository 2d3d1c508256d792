package document

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestPasswordsAreHidden: neither a message nor the line that is shown with it has a password, and columns stay as they are.
func TestPasswordsAreHidden(t *testing.T) {
	for text, want := range map[string]string{
		`url: "http://ann:secret@host/v1"`:         `url: "http://ann:******@host/v1"`,
		"url: https://ann:a/b@c?@host":             "url: https://ann:******@host",
		"url: https://token@host":                  "url: https://*****@host",
		"[http://a:pw@b, http://c:gänse@d] # ann@": "[http://a:**@b, http://c:*****@d] # ann@",
		"who: [ann@example.com]":                   "who: [ann@example.com]",
		`["http://a:80","ann@example.com"]`:        `["http://a:80","ann@example.com"]`,
		"http://host/@ann":                         "http://host/@ann",
	} {
		src := New(File{Name: "e.yaml", Source: []byte(text)})
		src.Errorf(&yaml.Node{Line: 1, Column: 1}, "url", "", "%s is none", text)
		if got := src.Findings[0]; got.Source != want || got.Message != want+" is none" {
			t.Errorf("%q: %q, %q, want %q", text, got.Source, got.Message, want)
		}
	}
	// The cut of a long line may be within a URL.
	src := New(File{Source: []byte(strings.Repeat("x", 2*maxShown) + " http://ann:" + strings.Repeat("secret", 100) + "@host" + strings.Repeat(" x", maxShown))})
	for col := range len(src.Lines[0]) {
		if src.Findings = nil; col%37 == 0 {
			src.Errorf(&yaml.Node{Line: 1, Column: col + 1}, "url", "", "it is none")
			if got := src.Findings[0].Source; strings.Contains(got, "secret") {
				t.Fatalf("at column %d: %q", col+1, got)
			}
		}
	}
}
