package pipelines

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/pipelines/program"
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
	session *session
}

// compileTransform compiles one row transform of the chain. It has the name it is counted under.
func compileTransform(t dsl.Transform, given givens) (c rowTransform, err error) {
	c.name = t.Name
	if t.Name != t.Type { // only one transform of a chain can go without a name
		c.prefix = t.Name + "/"
	}
	params := given.params
	switch t.Type {
	case "MapToFields":
		c.apply, err = compileAs(t, params, compileMap)
	case "AssertEqual":
		if c.assertion, err = compileAssert(t); err == nil {
			c.count = c.assertion.see
		}
	case "Explode":
		c.rules = []string{t.Name}
		var config dsl.Explode
		if config, err = decodeConfig[dsl.Explode](t); err == nil {
			c.explode, err = compileExplode(config)
		}
	case "Exec":
		c.prefix = t.Name + "/" // its rules are the program's, which may call one as another transform's
		c.program, err = compileExec(t, given.session.programs)
	case "Filter":
		c.rules = []string{t.Name}
		c.apply, err = compileAs(t, params, compileFilter)
	case "Decontaminate":
		c.rules = []string{t.Name}
		c.apply, err = compileDecontaminate(t, given.session)
	case "DecodeMail":
		c.apply, err = compileAs(t, params, compileDecodeMail)
	case "DetectLanguage":
		err = c.language(t)
	case "HtmlToText":
		c.apply, err = compileAs(t, params, compileHTMLToText)
	case "NormalizeText":
		c.apply, err = compileAs(t, params, compileNormalize)
	case "MaskPII":
		err = c.maskPII(t, given.secrets)
	case "Partition":
		c.route, err = compilePartition(t, params)
	case "Profile":
		var config dsl.ProfileRows
		if config, err = decodeConfig[dsl.ProfileRows](t); err == nil {
			c.profile, err = compileColumns(config.Columns, params)
		}
	case "QualityFilter":
		err = c.quality(t)
	case "Sample":
		c.rules = []string{t.Name}
		c.apply, err = compileAs(t, params, compileSample)
	case "ValidateWithSchema":
		c.apply, err = compileAs(t, params, compileValidate)
	default:
		err = fmt.Errorf("there is no transform of type %q", t.Type)
	}
	return c, err
}

// compileAs decodes the transform's config and hands it to the compiler of its type.
func compileAs[C any](t dsl.Transform, params map[string]any, compile func(C, map[string]any) (rowFunc, error)) (rowFunc, error) {
	config, err := decodeConfig[C](t)
	if err != nil {
		return nil, err
	}
	return compile(config, params)
}

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
