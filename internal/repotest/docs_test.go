package repotest

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	codeFence = regexp.MustCompile("(?ms)^```.*?^```$")
	localLink = regexp.MustCompile(`\]\(([^)\s:]+)\)`)
	anchorID  = regexp.MustCompile(`<a id="([^"]+)"`)
	heading   = regexp.MustCompile(`(?m)^#+ (.*)$`)
	linkText  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	notInSlug = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

// TestLinks: what the pages link to is there, headings of other pages too.
func TestLinks(t *testing.T) {
	atRoot(t)
	pages := map[string]string{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch base := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(base, ".") || base == "node_modules"):
			return fs.SkipDir
		case path.Ext(base) != ".md":
			return nil
		}
		source, err := os.ReadFile(name)
		pages[filepath.ToSlash(name)] = codeFence.ReplaceAllString(string(source), "")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	links := 0
	for page, text := range pages {
		for _, m := range localLink.FindAllStringSubmatch(text, -1) {
			links++
			file, anchor, _ := strings.Cut(m[1], "#")
			target := page
			if file != "" {
				target = path.Join(path.Dir(page), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, m[1])
			} else if anchor != "" && !hasAnchor(pages[target], anchor) {
				t.Errorf("%s links to %s, and that page has no such heading", page, m[1])
			}
		}
	}
	if links < 100 {
		t.Errorf("%d links were found", links)
	}
}

// hasAnchor reports whether GitHub gives a heading of a page this anchor, or the page sets it.
func hasAnchor(page, anchor string) bool {
	for _, m := range anchorID.FindAllStringSubmatch(page, -1) {
		if m[1] == anchor {
			return true
		}
	}
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		title := notInSlug.ReplaceAllString(strings.ToLower(linkText.ReplaceAllString(m[1], "$1")), "")
		if strings.ReplaceAll(strings.TrimSpace(title), " ", "-") == anchor {
			return true
		}
	}
	return false
}

// TestFrameworkScripts: each block of Python in docs/frameworks.md is part of the script that the page has linked before it, which
// `make test-frameworks` runs.
func TestFrameworkScripts(t *testing.T) {
	atRoot(t)
	const page = "docs/frameworks.md"
	source, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	blocks := 0
	before, rest := "", string(source)
	for {
		text, after, found := strings.Cut(rest, "```python\n")
		if !found {
			break
		}
		before += text
		block, left, _ := strings.Cut(after, "```")
		rest = left
		var script string
		for _, m := range localLink.FindAllStringSubmatch(before, -1) {
			if path.Ext(m[1]) == ".py" {
				script = path.Join(path.Dir(page), m[1])
			}
		}
		code, err := os.ReadFile(script)
		if err != nil {
			t.Fatalf("the script of block %d: %v", blocks+1, err)
		}
		if !strings.Contains(string(code), block) {
			t.Errorf("%s shows code that is not in %s:\n%s", page, script, block)
		}
		blocks++
	}
	if blocks < 6 {
		t.Errorf("%s has %d blocks of Python", page, blocks)
	}
}
