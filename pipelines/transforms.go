package pipelines

import (
	"errors"
	"fmt"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/pipelines/program"
	"github.com/sluiceml/sluice/pipelines/rows"
	"github.com/sluiceml/sluice/pipelines/text/overlap"
)

// rowFunc transforms one row in place. A dropped drops it, a rejection sends it to the dead letter (the row is then as it came
// in), any other error ends the job. It may be called from several goroutines.
type rowFunc func(rows.Row) error

// rowTransform is a compiled transform that sees one row at a time: it has one of apply, count, route, explode, profile and program.
type rowTransform struct {
	name  string
	apply rowFunc

	// count is a rowFunc that counts in namespaces of its own.
	count func(r rows.Row, add func(space, name string)) error
	// route names the output that a row goes to.
	route func(rows.Row) (string, error)
	// masks are the kinds that a MaskPII counts.
	masks []string
	// assertion is what an AssertEqual counts for.
	assertion *assertion
	explode   explodeFunc
	profile   columns
	program   *program.Pool

	// rules are the names that rows it drops are counted under; prefix begins them when it has several.
	rules  []string
	prefix string
}

// rule returns the name that a drop is counted under.
func (c *rowTransform) rule(d *rows.Dropped) string {
	if d.Rule == "" {
		return c.name
	}
	return c.prefix + d.Rule
}

// givens are what the transforms of a job are compiled with, beside their configs.
type givens struct {
	params map[string]any
	// secrets are values by the variable that a config names.
	secrets map[string]string
	shared  shared
}

// shared is what the transforms of a job have in common in one process, however often each is compiled.
type shared interface {
	// HeldOut returns what a Decontaminate, by its name, compares with. It is read once.
	HeldOut(transform string, read func() (*overlap.Set, error)) (*overlap.Set, error)
	// Pool returns the processes of an Exec, by its name.
	Pool(transform string, c dsl.Exec) (*program.Pool, error)
}

// compiler compiles the config of a transform into c.
type compiler func(c *rowTransform, t dsl.Transform, given givens) error

// compilers are those of the row transforms, by type.
var compilers = map[string]compiler{
	"AssertEqual":        (*rowTransform).assertEqual,
	"DecodeMail":         applies(compileDecodeMail),
	"Decontaminate":      drops((*rowTransform).decontaminate),
	"DetectLanguage":     (*rowTransform).language,
	"Exec":               (*rowTransform).exec,
	"Explode":            drops((*rowTransform).explodes),
	"Filter":             drops(applies(compileFilter)),
	"HtmlToText":         applies(compileHTMLToText),
	"MapToFields":        applies(compileMap),
	"MaskPII":            (*rowTransform).maskPII,
	"NormalizeText":      applies(compileNormalize),
	"Partition":          (*rowTransform).partition,
	"Profile":            (*rowTransform).profiles,
	"QualityFilter":      (*rowTransform).quality,
	"Sample":             drops(applies(compileSample)),
	"ValidateWithSchema": applies(compileValidate),
}

// compileTransform compiles one row transform of the chain. It has the name it is counted under.
func compileTransform(t dsl.Transform, given givens) (c rowTransform, err error) {
	c.name = t.Name
	if t.Name != t.Type { // only one transform of a chain can go without a name
		c.prefix = t.Name + "/"
	}
	compile := compilers[t.Type]
	if compile == nil {
		return c, fmt.Errorf("there is no transform of type %q", t.Type)
	}
	err = compile(&c, t, given)
	return c, err
}

// applies makes a compiler of one for a transform that changes, drops or rejects rows.
func applies[C any](compile func(C, map[string]any) (rowFunc, error)) compiler {
	return func(c *rowTransform, t dsl.Transform, given givens) error {
		config, err := rows.DecodeConfig[C](t)
		if err == nil {
			c.apply, err = compile(config, given.params)
		}
		return err
	}
}

// drops has the rows that the transform drops counted under its own name.
func drops(compile compiler) compiler {
	return func(c *rowTransform, t dsl.Transform, given givens) error {
		c.rules = []string{t.Name}
		return compile(c, t, given)
	}
}

// compileMap computes fields.
func compileMap(c dsl.MapToFields, params map[string]any) (rowFunc, error) {
	programs := make(map[string]*dsl.RowProgram, len(c.Fields))
	for name, e := range c.Fields {
		p, err := dsl.CompileRow(e, params)
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", name, err)
		}
		programs[name] = p
	}
	return func(r rows.Row) error {
		computed := make(rows.Row, len(programs))
		for name, p := range programs {
			v, err := p.Eval(r)
			if err != nil {
				return rows.RejectEval("field "+name, err)
			}
			computed[name] = v
		}
		if !c.Append {
			clear(r)
		}
		for _, name := range c.Drop {
			delete(r, name)
		}
		for name, v := range computed {
			r[name] = v
		}
		return nil
	}, nil
}

// compileFilter drops rows.
func compileFilter(c dsl.Filter, params map[string]any) (rowFunc, error) {
	keep, err := compileCondition("keep", c.Keep, params)
	if err != nil {
		return nil, err
	}
	return func(r rows.Row) error {
		ok, err := keep(r)
		if err == nil && !ok {
			return rows.ErrDropped
		}
		return err
	}, nil
}

// compileCondition compiles a bool expression over a row; errors in a row are rejections.
func compileCondition(key string, e dsl.Expr, params map[string]any) (func(rows.Row) (bool, error), error) {
	p, err := dsl.CompileRow(e, params)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return func(r rows.Row) (bool, error) {
		v, err := p.Eval(r)
		if err != nil {
			return false, rows.RejectEval(key, err)
		}
		b, ok := v.(bool)
		if !ok {
			return false, rows.Reject("expression", "%s: got %T, not a bool", key, v)
		}
		return b, nil
	}, nil
}

// mapText returns a transform that rewrites text fields. Null stays null.
func mapText(fields []string, rewrite func(string) string) (rowFunc, error) {
	if len(fields) == 0 {
		return nil, errors.New("fields: name at least one")
	}
	return func(r rows.Row) error {
		texts, err := rows.TextFields(r, fields)
		if err != nil {
			return err
		}
		for i, name := range fields {
			if r[name] != nil {
				r[name] = rewrite(texts[i])
			}
		}
		return nil
	}, nil
}
