package transform

import (
	"errors"
	"fmt"
	"slices"

	"github.com/abadojack/whatlanggo"

	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// maxLanguageText is how many bytes of a text are used to detect its language: more would not change the result.
const maxLanguageText = 2 << 10

// language compiles a DetectLanguage.
func (c *Compiled) language(config transform.DetectLanguage, _ Deps) error {
	if config.Field == "" {
		return errors.New("field: name the field that holds the text")
	}
	if config.As == "" && len(config.Keep) == 0 {
		return errors.New("set the languages to `keep`, or the field to write with `as`")
	}
	for _, code := range config.Keep {
		if !slices.Contains(transform.Languages, code) {
			return fmt.Errorf("keep: %q is not the ISO 639-1 code of a supported language", code)
		}
	}
	if len(config.Keep) > 0 {
		c.Rules = []string{c.name}
	}
	c.Apply = func(r rows.Row) error {
		texts, err := rows.TextFields(r, []string{config.Field})
		if err != nil {
			return err
		}
		code, confidence := language(texts[0])
		if len(config.Keep) > 0 && !slices.Contains(config.Keep, code) {
			return rows.ErrDropped
		}
		if config.As == "" {
			return nil
		}
		r[config.As], r[config.As+"_confidence"] = nil, confidence
		if code != "" {
			r[config.As] = code
		}
		return nil
	}
	return nil
}

// language returns the ISO 639-1 code of a text's language, or "" for none, and the confidence. If languages tie, whatlanggo picks one at
// random with confidence 0. That counts as none, so that the result for a text is always the same.
func language(text string) (code string, confidence float64) {
	if len(text) > maxLanguageText {
		text = rows.Clip(text, maxLanguageText)
	}
	info := whatlanggo.Detect(text)
	if code = codeOf(info.Lang); code == "" || info.Confidence == 0 {
		return "", 0
	}
	return code, info.Confidence
}

// codeOf returns the ISO 639-1 code of a language. whatlanggo has no code for languages that it treats as part of another.
func codeOf(lang whatlanggo.Lang) string {
	switch lang {
	case whatlanggo.Pes:
		return "fa"
	case whatlanggo.Ydd:
		return "yi"
	default:
		return lang.Iso6391()
	}
}
