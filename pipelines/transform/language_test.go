package transform

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/abadojack/whatlanggo"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// sentences of eight languages, three each.
var sentences = map[string][]string{
	"en": {"The committee will meet again on Thursday to discuss the budget.", "I have never seen such a beautiful garden before.", "It rained all night and the river rose."},
	"de": {"Der Ausschuss trifft sich am Donnerstag wieder, um über den Haushalt zu sprechen.", "Ich habe noch nie einen so schönen Garten gesehen.", "Es regnete die ganze Nacht und der Fluss stieg."},
	"fr": {"Le comité se réunira de nouveau jeudi pour discuter du budget.", "Je n'ai jamais vu un si beau jardin.", "Il a plu toute la nuit et la rivière a monté."},
	"es": {"El comité se reunirá otra vez el jueves para hablar del presupuesto.", "Nunca he visto un jardín tan hermoso.", "Llovió toda la noche y el río creció."},
	"it": {"Il comitato si riunirà di nuovo giovedì per discutere del bilancio.", "Non ho mai visto un giardino così bello.", "Ha piovuto tutta la notte e il fiume è salito."},
	"pl": {"Komitet spotka się ponownie w czwartek, aby omówić budżet.", "Nigdy nie widziałem tak pięknego ogrodu.", "Padało całą noc i rzeka wezbrała."},
	"ru": {"Комитет снова соберётся в четверг, чтобы обсудить бюджет.", "Я никогда не видел такого красивого сада.", "Всю ночь шёл дождь, и река поднялась."},
	"nl": {"De commissie komt donderdag weer bijeen om over de begroting te praten.", "Ik heb nog nooit zo'n mooie tuin gezien.", "Het regende de hele nacht en de rivier steeg."},
}

// The linter knows the languages that are told apart.
func TestLanguages(t *testing.T) {
	var codes []string
	for lang := range whatlanggo.Langs {
		if code := codeOf(lang); code != "" {
			codes = append(codes, code)
		}
	}
	slices.Sort(codes)
	if diff := cmp.Diff(slices.Compact(codes), transform.Languages); diff != "" {
		t.Errorf("-whatlanggo +dsl:\n%s", diff)
	}
}

func TestLanguage(t *testing.T) {
	for want, list := range sentences {
		if got, confidence := language(strings.Join(list, " ")); got != want || confidence <= 0 || confidence > 1 {
			t.Errorf("%s: got %s with %g", want, got, confidence)
		}
	}
	long := strings.Repeat("é", maxLanguageText) // cut between the bytes of a character
	for _, s := range []string{"", " ", "12 34", "\xff\xfe", long[1:]} {
		if got, confidence := language(s); confidence < 0 || confidence > 1 || got == "" && confidence != 0 {
			t.Errorf("%.20q: got %q with %g", s, got, confidence)
		}
	}
}

// A text has one answer, also where languages tie: short texts often do.
func TestLanguageIsNoChance(t *testing.T) {
	check := func(t interface{ Errorf(string, ...any) }, text string) {
		code, confidence := language(text)
		for range 30 {
			if again, c := language(text); again != code || c != confidence {
				t.Errorf("%q: got %q with %g, then %q with %g", text, code, confidence, again, c)
				return
			}
		}
	}
	for _, text := range []string{"на", "a", "и", "das", "not in", "אני", "में"} {
		check(t, text)
	}
	words := rapid.StringOfN(rapid.RuneFrom([]rune("abdenost åéñаиностћўहकाअهא ")), 1, 12, -1)
	rapid.Check(t, func(rt *rapid.T) { check(rt, words.Draw(rt, "text")) })
}

func TestDetectLanguage(t *testing.T) {
	german := strings.Join(sentences["de"], " ")
	r, err := apply(t, "DetectLanguage", `{"field": "a", "as": "lang"}`, `{"a": "`+german+`"}`)
	if confidence, ok := r["lang_confidence"].(float64); err != nil || r["lang"] != "de" || !ok || confidence <= 0 {
		t.Errorf("got %v, %v", r, err)
	}
	if r, err := apply(t, "DetectLanguage", `{"field": "a", "as": "lang"}`, `{"a": null}`); err != nil || r["lang"] != nil || r["lang_confidence"] != 0.0 {
		t.Errorf("null: got %v, %v", r, err)
	}
	if r, err := apply(t, "DetectLanguage", `{"field": "a", "keep": ["en", "de"]}`, `{"a": "`+german+`"}`); err != nil || len(r) != 1 {
		t.Errorf("kept: got %v, %v", r, err)
	}
	for _, keep := range []string{`["en"]`, `["fr", "nl"]`} {
		if _, err := apply(t, "DetectLanguage", `{"field": "a", "keep": `+keep+`}`, `{"a": "`+german+`"}`); !errors.Is(err, rows.ErrDropped) {
			t.Errorf("%s: got %v, want it dropped", keep, err)
		}
	}
}

func BenchmarkLanguage(b *testing.B) {
	text := strings.Repeat(strings.Join(sentences["en"], " ")+" ", 12)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		language(text)
	}
}
