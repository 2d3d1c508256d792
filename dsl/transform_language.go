package dsl

import (
	"regexp"

	"go.yaml.in/yaml/v3"
)

// DetectLanguage finds the language that a text is mainly written in, of some eighty. Some sentences are told rightly; of a few words,
// of lists and of closely related languages do not expect it.
type DetectLanguage struct {
	// Field holds the text. Null and a text without letters have no language.
	Field string `json:"field"`
	// As names the field that is set to the language's ISO 639-1 code, or null; NAME_confidence is set to a number between 0 and 1.
	As string `json:"as,omitempty" dsl:"literal"`
	// Keep lists codes; rows of another language are dropped, and of none. The transform's name is the rule they are counted under.
	Keep []string `json:"keep,omitempty" dsl:"literal"`
	ErrorKeys
}

var languageCode = regexp.MustCompile(`^[a-z]{2}$`)

// checkTransform demands something to do and codes.
func (DetectLanguage) checkTransform(c *checker, _ *step, config *yaml.Node) {
	if config == nil {
		return
	}
	keep := lookup(config, "keep")
	if keep == nil && lookup(config, "as") == nil {
		c.src.errorf(config, "required", "add `keep: [en]` or `as: language`", "this neither keeps languages nor sets a field")
	}
	c.checkNotEmpty(keep)
	c.checkTwice(keep)
	if keep == nil {
		return
	}
	for _, item := range keep.Content {
		if item.Kind == yaml.ScalarNode && !languageCode.MatchString(item.Value) {
			c.src.errorf(item, "name", "write two small letters, such as en", "%q is not a code of ISO 639-1", item.Value)
		}
	}
}
