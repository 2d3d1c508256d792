package sluice_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

//go:generate go test . -run ^TestPromises$ -update

var update = flag.Bool("update", false, "write docs/promises.md")

const ledger = "docs/promises.md"

const ledgerHead = `<!-- ` + "`make generate`" + ` writes this page from the docs and the tests: change those. -->
# Promises

The sentences of these pages that promise something, with the tests that fail if a promise no longer holds. An anchor in the page marks such a
sentence, ` + "`<a id=\"p-name\"></a>`" + `, and a comment at the test refers to it, ` + "`// promise: docs/page.md#p-name`" + `
(` + "`# promise: ...`" + ` in a script). A marked sentence without a test fails the build, and so does a test that refers to a missing sentence.
`

var (
	mark = regexp.MustCompile(`<a id="(p-[a-z0-9-]+)"></a>`)
	// reference is a test's word that it holds a sentence.
	reference   = regexp.MustCompile(`(?m)^\s*(?://|#) promise: (\S+)#(p-[a-z0-9-]+)\s*$`)
	sentenceEnd = regexp.MustCompile(`[.!?][)*]*(\s|$)`)
	markdownURL = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// promise is a marked sentence.
type promise struct {
	page, id, sentence string
	tests              []string
}

// TestPromises holds the docs to their word. It does not know which sentences promise something: whoever writes one marks it.
func TestPromises(t *testing.T) {
	var all []*promise
	byPlace := map[string]*promise{}
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append([]string{"README.md"}, pages...) {
		if page == ledger {
			continue
		}
		for _, p := range promisesOf(t, page) {
			place := p.page + "#" + p.id
			if byPlace[place] != nil {
				t.Errorf("%s is marked twice", place)
			}
			byPlace[place] = p
			all = append(all, p)
		}
	}
	for place, tests := range keepers(t) {
		if p := byPlace[place]; p != nil {
			p.tests = slices.Sorted(maps.Keys(tests))
			continue
		}
		t.Errorf("%s is named by %s, and marks no sentence", place, strings.Join(slices.Sorted(maps.Keys(tests)), ", "))
	}
	for _, p := range all {
		if len(p.tests) == 0 {
			t.Errorf("%s: no test names %s: %s", p.page, p.id, p.sentence)
		}
	}
	want := ledgerPage(all)
	if *update {
		if err := os.WriteFile(ledger, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(ledger)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Errorf("%s is stale: run `make generate` (-want +got):\n%s", ledger, d)
	}
}

// promisesOf are the marked sentences of a page, in its order.
func promisesOf(t *testing.T, page string) []*promise {
	t.Helper()
	source, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(source)
	var all []*promise
	for _, at := range mark.FindAllStringSubmatchIndex(text, -1) {
		p := &promise{page: page, id: text[at[2]:at[3]], sentence: sentenceAt(text, at[1])}
		if p.sentence == "" {
			t.Errorf("%s: %s marks nothing: it stands before the sentence that it marks", page, p.id)
		}
		all = append(all, p)
	}
	return all
}

// sentenceAt is the sentence that begins at a place of a page, in one line: up to its end, that of its table's cell, list item or paragraph.
func sentenceAt(text string, from int) string {
	lineStart := strings.LastIndexByte(text[:from], '\n') + 1
	rest := text[from:]
	if strings.HasPrefix(text[lineStart:], "|") {
		rest, _, _ = strings.Cut(rest, "\n")
		rest, _, _ = strings.Cut(rest, " |")
	} else {
		for _, end := range []string{"\n\n", "\n- ", "\n* ", "\n  - ", "\n|", "\n```"} {
			rest, _, _ = strings.Cut(rest, end)
		}
	}
	rest = mark.ReplaceAllString(rest, "")
	for _, end := range sentenceEnd.FindAllStringIndex(rest, -1) {
		if strings.Count(rest[:end[0]], "`")%2 == 0 {
			rest = rest[:end[1]]
			break
		}
	}
	rest = strings.Join(strings.Fields(markdownURL.ReplaceAllString(rest, "$1")), " ")
	return strings.TrimSuffix(rest, ":")
}

// keepers are the tests, by the places of the sentences that they name. A script is a test of its own.
func keepers(t *testing.T) map[string]map[string]bool {
	t.Helper()
	all := map[string]map[string]bool{}
	add := func(comment, test string) {
		for _, m := range reference.FindAllStringSubmatch(comment, -1) {
			place := m[1] + "#" + m[2]
			if all[place] == nil {
				all[place] = map[string]bool{}
			}
			all[place][test] = true
		}
	}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch base := d.Name(); {
		case d.IsDir() && name != "." && (strings.HasPrefix(base, ".") || base == "node_modules"):
			return fs.SkipDir
		case strings.HasSuffix(name, ".txtar"):
			source, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			script, _, _ := strings.Cut(string(source), "\n-- ")
			add(script, fmt.Sprintf("%s (%s)", strings.TrimSuffix(base, ".txtar"), path.Dir(filepath.ToSlash(name))))
		case strings.HasSuffix(name, "_test.go"):
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
			if err != nil {
				return err
			}
			for _, declared := range file.Decls {
				f, ok := declared.(*ast.FuncDecl)
				if !ok || f.Doc == nil {
					continue
				}
				var comment strings.Builder
				for _, line := range f.Doc.List {
					comment.WriteString(line.Text + "\n")
				}
				if isTest := strings.HasPrefix(f.Name.Name, "Test") || strings.HasPrefix(f.Name.Name, "Fuzz"); !isTest {
					if reference.MatchString(comment.String()) {
						t.Errorf("%s: %s is no test", name, f.Name.Name)
					}
					continue
				}
				add(comment.String(), fmt.Sprintf("%s (%s)", f.Name.Name, path.Dir(filepath.ToSlash(name))))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range figures {
		add("// promise: "+f.mark, "TestFigures (.)")
	}
	return all
}

// ledgerPage is docs/promises.md.
func ledgerPage(all []*promise) string {
	var b strings.Builder
	b.WriteString(ledgerHead)
	page := ""
	for _, p := range all {
		if p.page != page {
			page = p.page
			fmt.Fprintf(&b, "\n## %s\n\n| sentence | tests |\n|---|---|\n", strings.TrimPrefix(page, "docs/"))
		}
		link, err := filepath.Rel(filepath.Dir(ledger), p.page)
		if err != nil {
			link = p.page
		}
		fmt.Fprintf(&b, "| [¶](%s#%s) %s | %s |\n", link, p.id, p.sentence, strings.Join(p.tests, "<br>"))
	}
	return b.String()
}
