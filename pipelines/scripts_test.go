package pipelines_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"golang.org/x/text/encoding/charmap"

	"github.com/sluiceml/sluice/dsl/transform"
)

// scripts are cleanings of texts in eleven scripts and languages, by what they are called in testdata/scripts. Each has the kinds of texts
// that it is for.
var scripts = []struct{ name, kinds, transforms string }{
	{"DecodeMail", "mail", `
- {type: DecodeMail, config: {field: text}}
- {type: MapToFields, config: {append: true, fields: {text: 'row.from + "\n" + row.subject + "\n" + row.body'}}}`},
	{"Decontaminate", "prose twin contact", `
- {type: Decontaminate, config: {fields: [text], against: INPUT/held.jsonl, ngram: 8}}`},
	{"Deduplicate", "prose twin contact", `
- {type: Deduplicate, config: {method: minhash, fields: [text], order_by: row.id}}`},
	{"DetectLanguage", "prose contact", `
- {type: DetectLanguage, config: {field: text, as: lang}}
- {type: MapToFields, config: {append: true, fields: {text: 'row.lang == null ? "none" : string(row.lang)'}}}`},
	{"HtmlToText", "page", `
- {type: HtmlToText, config: {fields: [text]}}`},
	{"MaskPII", "contact", `
- {type: MaskPII, config: {fields: [text]}}`},
	{"NormalizeText", "noisy", `
- {type: NormalizeText, config: {fields: [text]}}`},
	{"NormalizeText lower NFKC", "noisy", `
- {type: NormalizeText, config: {fields: [text], form: NFKC, case: lower}}`},
	{"NormalizeText repair", "misread prose contact", `
- {type: NormalizeText, config: {fields: [text], mojibake: repair}}`},
	{"QualityFilter gopher", "prose page", `
- {type: QualityFilter, config: {field: text, rules: [gopher], gopher: {min_words: 20, min_stop_words: 0}}}`},
	{"QualityFilter c4", "prose page", `
- {type: QualityFilter, config: {field: text, rules: [c4]}}`},
	{"QualityFilter fineweb", "prose page", `
- {type: QualityFilter, config: {field: text, rules: [fineweb]}}`},
}

// noTexts are the transforms that look into no texts, but for expressions and programs of the user's.
var noTexts = []string{
	"AssertEqual", "Combine", "Exec", "Explode", "Filter", "Flatten", "MapToFields", "Partition", "Profile", "Sample", "Split", "ValidateWithSchema",
}

// A transform of texts says what it makes of each script.
func TestScripts(t *testing.T) {
	texts := scriptTexts(t)
	input := scriptInput(t, texts)
	for _, s := range scripts {
		t.Run(s.name, func(t *testing.T) {
			dir := t.TempDir()
			out := mustRun(t, job(dir, chain(t, input, scriptChain(s.kinds, s.transforms))))
			made := map[string]string{}
			for _, row := range lines(t, filepath.Join(dir, "out", "*", "*")) {
				made[row["id"].(string)] = row["text"].(string)
			}
			golden := &txtar.Archive{}
			for _, id := range slices.Sorted(maps.Keys(texts)) {
				if _, kind, _ := strings.Cut(id, "/"); !slices.Contains(strings.Fields(s.kinds), kind) {
					continue
				}
				text, kept := made[id]
				switch {
				case !kept:
					golden.Comment = fmt.Appendf(golden.Comment, "dropped: %s\n", id)
				case text == texts[id]:
					golden.Comment = fmt.Appendf(golden.Comment, "as it was: %s\n", id)
				default:
					golden.Files = append(golden.Files, txtar.File{Name: id, Data: []byte(visible(text) + "\n")})
				}
			}
			for _, rule := range slices.Sorted(maps.Keys(out.Rules)) {
				golden.Comment = fmt.Appendf(golden.Comment, "%s: %d dropped\n", rule, out.Rules[rule].Dropped)
			}
			name := filepath.Join("testdata/scripts", strings.ReplaceAll(s.name, " ", "_")+".txtar")
			if *update {
				if err := os.WriteFile(name, txtar.Format(golden), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(read(t, name), string(txtar.Format(golden))); diff != "" {
				t.Errorf("%s; run this test with -update, and read what has changed (-before +now):\n%s", name, diff)
			}
		})
	}
	for _, typ := range transform.Types() {
		if transform.IsReader(typ) || transform.IsWriter(typ) || slices.Contains(noTexts, typ) {
			continue
		}
		if !strings.Contains(fmt.Sprint(scripts), "type: "+typ+",") {
			t.Errorf("nothing says what %s makes of the scripts: add a line to `scripts`", typ)
		}
	}
}

// scriptChain reads the texts of some kinds for the transforms.
func scriptChain(kinds, transforms string) string {
	return fmt.Sprintf("\n- {type: ReadFromJson, config: {path: [%s]}}%s\n- {type: WriteToJson}\n",
		strings.ReplaceAll("INPUT/"+kinds, " ", ".jsonl, INPUT/")+".jsonl", transforms)
}

// scriptTexts reads the texts by SCRIPT/KIND, with those that are misread prose.
func scriptTexts(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, f := range txtar.Parse([]byte(read(t, "testdata/scripts/texts.txtar"))).Files {
		text, err := strconv.Unquote(`"` + strings.NewReplacer(`"`, `\"`, "\n", `\n`).Replace(strings.TrimSuffix(string(f.Data), "\n")) + `"`)
		if err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		texts[f.Name] = text
		if script, prose := strings.CutSuffix(f.Name, "/prose"); prose {
			texts[script+"/misread"] = misread(text)
		}
	}
	return texts
}

// scriptInput writes a file of each kind, and one with the sentences that are held out.
func scriptInput(t *testing.T, texts map[string]string) string {
	t.Helper()
	files := map[string]string{}
	for id, text := range texts {
		_, kind, _ := strings.Cut(id, "/")
		files[kind+".jsonl"] += asJSON(t, map[string]string{"id": id, "text": text}) + "\n"
		if kind == "prose" {
			files["held.jsonl"] += asJSON(t, map[string]string{"text": strings.Split(text, "\n")[2]}) + "\n"
		}
	}
	return write(t, files)
}

// visible writes characters that are not seen as in a string of Go.
func visible(text string) string {
	quoted := strconv.QuoteToGraphic(text)
	return strings.NewReplacer(`\n`, "\n", `\"`, `"`, "\u00a0", `\u00a0`, "\u202f", `\u202f`, "\u3000", `\u3000`).Replace(quoted[1 : len(quoted)-1])
}

// misread returns a text as it looks when its UTF-8 is read as Windows-1252.
func misread(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		r := charmap.Windows1252.DecodeByte(c)
		if r == '\uFFFD' {
			r = rune(c)
		}
		b.WriteRune(r)
	}
	return b.String()
}
