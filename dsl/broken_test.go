package dsl

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/sluiceml/sluice/dsl/document"
)

// brokenEnv is what the documents of testdata/broken are checked against.
const brokenEnv = `sluice: environment/v1
name: lab
pools: {my-pool: {local: {nodes: 2}}}
targets: {local: {embedded: {port: 8080}}}
people: {"group:ml": {users: [anna]}}
secrets: {token: {env: TOKEN}}
`

// uncaught are the documents of which the linter says nothing, or not what it should.
var uncaught = map[string]string{
	"expressions/floor_division":    "`//` begins a comment in CEL, and a comment is no mistake",
	"yaml/missing_space_after_dash": "without the spaces the two lines are one expression, and a list is not to be guessed from it",
}

// finding is one that a document must have: a line `#! CODE | TEXT | WORDS; WORDS`.
type finding struct {
	code, at string // the line it is at has the text
	words    []string
}

func (f finding) matches(d document.Diagnostic) bool {
	return d.Code == f.code && strings.Contains(d.Source, f.at) &&
		!slices.ContainsFunc(f.words, func(w string) bool { return !strings.Contains(d.Message+"\n"+d.Hint, w) })
}

// nearlyAll is a workspace that has every program and no pipeline, nor a folder `missing`.
type nearlyAll struct{}

func (nearlyAll) Exists(path string) bool {
	return !strings.HasSuffix(path, ".yaml") && !strings.HasPrefix(path, "missing/") && !strings.Contains(path, " ")
}

func (nearlyAll) LeftOut(string) (why, help string) { return "", "" }
func (nearlyAll) ReadFile(string) ([]byte, error)   { return nil, fs.ErrNotExist }

var (
	topLevel = regexp.MustCompile(`(?m)^("?steps"?|[a-z_]+: .*\n"?steps"?|step|jobs|tasks|templates|stages|services):`)
	wanted   = regexp.MustCompile(`(?m)^#! (\S+) \| (.*?) \| ?(.*)\n`)
)

// needless is a pipeline that needs nothing of its environment.
const needless = "sluice: pipeline/v1\nname: p\nsteps: {a: {run: {command: [ls]}}}\n"

// readBroken splits a document from what is wanted of it. A document is the body of `steps`, or all but the first two lines where it has
// top-level keys, or whole.
func readBroken(text string) (doc string, want []finding) {
	for _, m := range wanted.FindAllStringSubmatch(text, -1) {
		f := finding{code: m[1], at: m[2]}
		for w := range strings.SplitSeq(m[3], "; ") {
			f.words = append(f.words, strings.TrimSpace(w))
		}
		want = append(want, f)
	}
	text = wanted.ReplaceAllString(text, "")
	switch whole, isWhole := strings.CutPrefix(text, "#! whole\n"); {
	case isWhole:
		return whole, want
	case strings.HasPrefix(text, "sluice:") || strings.HasPrefix(text, "apiVersion:") || strings.HasPrefix(text, "# sluice:"):
		return text, want
	case topLevel.MatchString(text):
		return "sluice: pipeline/v1\nname: p\n" + text, want
	}
	return "sluice: pipeline/v1\nname: p\nsteps:\n  " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n", want
}

// brokenCase is a document of testdata/broken, what it is checked against, and the findings that are wanted of it: none if it is sound.
type brokenCase struct {
	theme, name string
	pipeline    document.File
	env         document.File
	want        []finding
}

func brokenCases(t *testing.T) (all []brokenCase) {
	t.Helper()
	themes, err := filepath.Glob("testdata/broken/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range themes {
		theme := strings.TrimSuffix(filepath.Base(path), ".txtar")
		cases, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cases.Files {
			// What follows `#! environment` are the keys of one, for a pipeline that may be left out.
			written, keys, hasEnv := strings.Cut(string(c.Data), "#! environment\n")
			doc, want := readBroken(written)
			pipeline, env := doc, brokenEnv
			switch {
			case theme == "environment":
				pipeline, env = needless, doc
			case hasEnv && strings.TrimSpace(wanted.ReplaceAllString(written, "")) == "":
				pipeline = needless
				fallthrough
			case hasEnv:
				env = "sluice: environment/v1\nname: lab\n" + keys
			}
			all = append(all, brokenCase{
				theme: theme, name: theme + "/" + c.Name, want: want,
				pipeline: document.File{Name: "p.yaml", Source: []byte(pipeline)}, env: document.File{Name: "e.yaml", Source: []byte(env)},
			})
		}
	}
	return all
}

// TestBroken holds the linter to what it says of the mistakes that people make: each has the findings that its document names, and no
// others, since a mistake that is told twice hides the next one.
func TestBroken(t *testing.T) {
	var broken, caught, valid int
	met := map[string]bool{}
	for _, c := range brokenCases(t) {
		if met[c.name] {
			t.Errorf("%s is there twice", c.name)
		}
		met[c.name] = true
		_, got := Compile(c.pipeline, c.env, nearlyAll{})
		if len(c.want) == 0 {
			if valid++; c.theme != "valid" {
				t.Errorf("%s: no finding is wanted of it", c.name)
			}
			if len(got) > 0 {
				t.Errorf("%s is sound, and the linter says:\n%s", c.name, got.Text(false))
			}
			continue
		}
		broken++
		right := len(got) == len(c.want)
		for _, w := range c.want {
			right = right && slices.ContainsFunc(got, w.matches)
		}
		switch why := uncaught[c.name]; {
		case right && why == "":
			caught++
		case right:
			t.Errorf("%s is caught: remove it from the list of those that are not", c.name)
		case why == "":
			t.Errorf("%s\nwants %q and has:\n%s", c.name, c.want, got.Text(false))
		}
	}
	for name := range uncaught {
		if !met[name] {
			t.Errorf("%s is in the list of what is not caught, and not in the corpus", name)
		}
	}
	t.Logf("%d of %d broken documents are caught with the hint that mends them; %d sound ones", caught, broken, valid)
	if broken < 250 || valid < 40 || caught*100 < broken*98 {
		t.Errorf("%d of %d broken documents are caught, %d sound ones; there must be 250 of which 98%% are, and 40", caught, broken, valid)
	}
}
