package transform

import (
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
)

// DetectLanguage detects the main language of a text, out of about eighty. It is reliable for several sentences, but not for a few words,
// for lists, or for closely related languages.
type DetectLanguage struct {
	// Field is the field with the text. Null, a text without letters and an ambiguous text have no language.
	Field string `json:"field"`
	// As is the field that is set to the ISO 639-1 code of the language, or null; NAME_confidence is set to a number between 0 and 1.
	As string `json:"as,omitempty" dsl:"literal"`
	// Keep lists codes; rows of other languages, or of none, are dropped and counted under the transform's name.
	Keep []string `json:"keep,omitempty" dsl:"literal"`
	ErrorKeys
}

// Languages are the ISO 639-1 codes of the languages that DetectLanguage tells apart.
var Languages = strings.Fields(`
	af ak am ar az be bg bh bn cs da de el en eo es et fa fi fr gu ha he hi hr ht hu id ig it ja jv ka km kn ko ku lt lv mg mk ml mr my nb ne
	nl nn ny om or pa pl pt rn ro ru rw si sl sn so sr sv ta te th ti tk tl tr ug uk ur uz vi yi yo zh zu`)

// unspacedLanguages are those of them that put no spaces between words.
var unspacedLanguages = []string{"ja", "km", "my", "th", "zh"}

// Check demands something to do and codes.
func (DetectLanguage) Check(r document.Reporter, _ StepFacts, config *yaml.Node) {
	if config == nil {
		return
	}
	keep := document.Lookup(config, "keep")
	if keep == nil && document.Lookup(config, "as") == nil {
		r.Errorf(config, "required", "add `keep: [en]` or `as: language`", "neither `keep` nor `as` is set")
	}
	checkNotEmpty(r, keep)
	document.CheckTwice(r, keep)
	if keep == nil {
		return
	}
	for _, item := range keep.Content {
		if item.Kind == yaml.ScalarNode && !slices.Contains(Languages, item.Value) {
			r.Errorf(item, "name", "use two lower-case letters, such as en", "%q is not the ISO 639-1 code of a supported language", item.Value)
		}
	}
}

// Counts implements Counter.
func (DetectLanguage) Counts(to Counts, label string, config *yaml.Node) {
	if document.Lookup(config, "keep") != nil {
		to.add("rules", label)
	}
}

// Shape implements Shaper.
func (DetectLanguage) Shape(in Shape, config *yaml.Node, _ ExprTypes) Shape {
	if keep := document.Lookup(config, "keep"); keep != nil {
		in.Languages = valuesBelow(keep)
	}
	if as := document.Lookup(config, "as"); as != nil {
		return in.with(as.Value, cel.DynType).with(as.Value+"_confidence", cel.DoubleType) // no language is null
	}
	return in
}
