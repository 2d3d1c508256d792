package pipelines

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/pipelines/program"
	"github.com/sluiceml/sluice/pipelines/text/overlap"
)

// rowFunc transforms one row in place. A dropped drops it, a rejection sends it to the dead letter (the row is then as it came
// in), any other error ends the job. It may be called from several goroutines.
type rowFunc func(row) error

// rowTransform is a compiled transform that sees one row at a time: it has one of apply, count, route, explode, profile and program.
type rowTransform struct {
	name  string
	apply rowFunc

	// count is a rowFunc that counts in namespaces of its own.
	count func(r row, add func(space, name string)) error
	// route names the output that a row goes to.
	route func(row) (string, error)
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
func (c *rowTransform) rule(d *dropped) string {
	if d.rule == "" {
		return c.name
	}
	return c.prefix + d.rule
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
		config, err := decodeConfig[C](t)
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

// decodeConfig returns the config of a transform, with defaults for what it leaves out.
func decodeConfig[C any](t dsl.Transform) (config C, err error) {
	config = dsl.DefaultsOf[C]()
	if len(t.Config) == 0 {
		return config, nil
	}
	d := json.NewDecoder(bytes.NewReader(t.Config))
	d.DisallowUnknownFields()
	if err := d.Decode(&config); err != nil {
		return config, fmt.Errorf("config: %w", err)
	}
	return config, nil
}

// oneOf checks a word of a config and fills in its default, the first choice.
func oneOf(key, value string, choices ...string) (string, error) {
	if value == "" {
		return choices[0], nil
	}
	if !slices.Contains(choices, value) {
		return "", fmt.Errorf("%s: %q is none of %q", key, value, choices)
	}
	return value, nil
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
	return func(r row) error {
		computed := make(row, len(programs))
		for name, p := range programs {
			v, err := p.Eval(r)
			if err != nil {
				return rejectEval("field "+name, err)
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
	return func(r row) error {
		ok, err := keep(r)
		if err == nil && !ok {
			return errDropped
		}
		return err
	}, nil
}

// compileCondition compiles a bool expression over a row; errors in a row are rejections.
func compileCondition(key string, e dsl.Expr, params map[string]any) (func(row) (bool, error), error) {
	p, err := dsl.CompileRow(e, params)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return func(r row) (bool, error) {
		v, err := p.Eval(r)
		if err != nil {
			return false, rejectEval(key, err)
		}
		b, ok := v.(bool)
		if !ok {
			return false, reject("expression", "%s: got %T, not a bool", key, v)
		}
		return b, nil
	}, nil
}

// textFields returns the texts of fields, "" for null. A missing field and one that is no text reject the row.
func textFields(r row, fields []string) ([]string, error) {
	texts := make([]string, len(fields))
	for i, name := range fields {
		v, ok := r[name]
		if !ok {
			return nil, reject("missing_field", "the row has no field %s", name)
		}
		if texts[i], ok = v.(string); !ok && v != nil {
			return nil, reject("not_text", "field %s is a %T, not a text", name, v)
		}
	}
	return texts, nil
}

// mapText returns a transform that rewrites text fields. Null stays null.
func mapText(fields []string, rewrite func(string) string) (rowFunc, error) {
	if len(fields) == 0 {
		return nil, errors.New("fields: name at least one")
	}
	return func(r row) error {
		texts, err := textFields(r, fields)
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
