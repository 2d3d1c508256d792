package dsl

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/environment"
)

// yamlBlock is a block of YAML in a document. What its first line calls it, if it does, is the file it stands for.
var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(?:# (\\S+\\.yaml)\n)?(.*?)^```$")

// guide is the document whose environment all examples are checked with.
const guide = "../docs/pipelines.md"

// block is a whole document in a page.
type block struct {
	page, file string // file is empty when the page does not name it
	line       int    // in the page
	source     []byte
}

// blocksOf are the whole documents among the YAML of a page. Fragments are left out.
func blocksOf(t *testing.T, page string) []block {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []block
	for _, m := range yamlBlock.FindAllSubmatchIndex(data, -1) {
		b := block{page: filepath.Base(page), source: data[m[4]:m[5]], line: 1 + strings.Count(string(data[:m[4]]), "\n")}
		if m[2] >= 0 {
			b.file = string(data[m[2]:m[3]])
		}
		if strings.HasPrefix(string(b.source), "sluice:") {
			blocks = append(blocks, b)
		}
	}
	return blocks
}

func (b block) isEnvironment() bool { return environmentExample(b.source) }

// pageFiles is a workspace in which there is every file, and those can be read that a page shows.
type pageFiles []block

func (pageFiles) Exists(string) bool { return true }

func (pageFiles) LeftOut(string) (why, help string) { return "", "" }

func (s pageFiles) ReadFile(path string) ([]byte, error) {
	for _, b := range s {
		if b.file == path {
			return b.source, nil
		}
	}
	return nil, fs.ErrNotExist
}

// TestDocs: the examples that people copy have no findings, not even warnings.
func TestDocs(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil || len(pages) < 5 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	var env document.File
	for _, b := range blocksOf(t, guide) {
		if b.isEnvironment() {
			env = document.File{Name: b.file, Source: b.source}
		}
	}
	if env.Source == nil {
		t.Fatalf("%s shows no environment", guide)
	}
	counts := map[string]int{}
	for _, page := range append(pages, "../README.md") {
		if filepath.Base(page) == "reference.md" {
			continue // generated from documents that TestExamples lints
		}
		blocks := blocksOf(t, page)
		for _, b := range blocks {
			counts[b.page]++
			var diags document.Diagnostics
			if b.isEnvironment() {
				_, diags = environment.LoadFile(document.File{Name: b.page, Source: b.source})
			} else {
				_, diags = Compile(document.File{Name: b.page, Source: b.source}, env, pageFiles(blocks))
			}
			if found := diags.Text(false); found != "" {
				t.Errorf("%s, the block at line %d:\n%s", b.page, b.line, found)
			}
		}
	}
	for page, least := range map[string]int{"pipelines.md": 15, "README.md": 1, "triggers.md": 1, "data.md": 2} {
		if counts[page] < least {
			t.Errorf("%s: %d whole documents were found, want at least %d", page, counts[page], least)
		}
	}
}
