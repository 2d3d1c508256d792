package transform

import (
	"errors"

	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines/rows"
	"github.com/sluiceml/sluice/pipelines/text/quality"
)

// quality compiles a QualityFilter, which has several rules and counts dropped rows by rule.
func (c *Compiled) quality(config transform.QualityFilter, _ Deps) error {
	if config.Field == "" {
		return errors.New("field: name the field that holds the text")
	}
	filter, err := quality.New(config)
	if err != nil {
		return err
	}
	for _, rule := range filter.Rules() {
		c.Rules = append(c.Rules, c.prefix+rule)
	}
	c.Apply = func(r rows.Row) error {
		texts, err := rows.TextFields(r, []string{config.Field})
		if err != nil || r[config.Field] == nil {
			return err
		}
		edited, failed := filter.Evaluate(texts[0])
		if failed != "" {
			return &rows.Dropped{Rule: failed}
		}
		r[config.Field] = edited
		return nil
	}
	return nil
}
