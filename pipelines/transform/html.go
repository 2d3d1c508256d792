package transform

import (
	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines/rows"
	"github.com/sluiceml/sluice/pipelines/text/htmltext"
)

// compileHTMLToText compiles an HtmlToText, which converts fields with HTML to text.
func compileHTMLToText(c transform.HTMLToText, params map[string]any) (rowFunc, error) {
	convert, err := mapText(c.Fields, htmltext.Convert)
	if err != nil || c.When == "" {
		return convert, err
	}
	when, err := compileCondition("when", c.When, params)
	if err != nil {
		return nil, err
	}
	return func(r rows.Row) error {
		ok, err := when(r)
		if err != nil || !ok {
			return err
		}
		return convert(r)
	}, nil
}
