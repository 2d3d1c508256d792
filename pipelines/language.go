package pipelines

import (
	"errors"
	"fmt"
	"slices"

	"github.com/abadojack/whatlanggo"

	"github.com/sluiceml/sluice/dsl"
)

// maxLanguageText is how much of a text its language is judged by, in bytes: more makes no difference, only time.
const maxLanguageText = 2 << 10

// compileLanguage finds languages.
func compileLanguage(c dsl.DetectLanguage, _ map[string]any) (rowFunc, error) {
	if c.Field == "" {
		return nil, errors.New("field: name the field that holds the text")
	}
	if c.As == "" && len(c.Keep) == 0 {
		return nil, errors.New("name the languages to `keep`, or the field to set with `as`")
	}
	for _, code := range c.Keep {
		if !knownLanguage(code) {
			return nil, fmt.Errorf("keep: %q is no ISO 639-1 code of a language that is told apart here", code)
		}
	}
	return func(r row) error {
		texts, err := textFields(r, []string{c.Field})
		if err != nil {
			return err
		}
		code, confidence := language(texts[0])
		if len(c.Keep) > 0 && !slices.Contains(c.Keep, code) {
			return errDropped
		}
		if c.As == "" {
			return nil
		}
		r[c.As], r[c.As+"_confidence"] = nil, confidence
		if code != "" {
			r[c.As] = code
		}
		return nil
	}, nil
}

// language returns the ISO 639-1 code of a text's language, "" for none, and how sure that is.
func language(text string) (code string, confidence float64) {
	if len(text) > maxLanguageText {
		text = clip(text, maxLanguageText)
	}
	info := whatlanggo.Detect(text)
	if code = info.Lang.Iso6391(); code == "" {
		return "", 0
	}
	return code, info.Confidence
}

func knownLanguage(code string) bool {
	for lang := range whatlanggo.Langs {
		if lang.Iso6391() == code {
			return true
		}
	}
	return false
}
