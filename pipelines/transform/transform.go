package transform

import (
	"errors"
	"fmt"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines/format"
	"github.com/sluiceml/sluice/pipelines/program"
	"github.com/sluiceml/sluice/pipelines/rows"
	"github.com/sluiceml/sluice/pipelines/text/ngram"
)

// rowFunc transforms one row in place. A *rows.Dropped drops the row, a *rows.Rejection sends it unchanged to the dead letter, and any
// other error ends the job. It must be safe for concurrent use.
type rowFunc func(rows.Row) error

// Compiled is a compiled transform that processes one row at a time. It has one of Apply, Count, Route, Explode, Profile and Program.
type Compiled struct {
	name string

	Apply rowFunc
	// Count is a rowFunc that also counts, in namespaces of its own.
	Count func(r rows.Row, add func(space, name string)) error
	// Route returns the output that a row goes to.
	Route func(rows.Row) (string, error)
	// Masks are the kinds of personal data that a MaskPII counts.
	Masks []string
	// Assertion is that of an AssertEqual.
	Assertion *Assertion
	Explode   explodeFunc
	Profile   Columns
	Program   *program.Pool

	// Rules are the names that dropped rows are counted under. They begin with prefix if the transform has several rules.
	Rules  []string
	prefix string
}

// Rule returns the name that a dropped row is counted under.
func (c *Compiled) Rule(d *rows.Dropped) string {
	if d.Rule == "" {
		return c.name
	}
	return c.prefix + d.Rule
}

// Deps is what the transforms of a job are compiled with, besides their configs.
type Deps struct {
	Params map[string]any
	// Secrets maps the variables that configs name to their values.
	Secrets map[string]string
	Shared  Shared
}

// Shared is what the transforms of a job share in one process, however often they are compiled.
type Shared interface {
	// HeldOut returns the held-out texts of a Decontaminate by its name. They are read once.
	HeldOut(name string, read func() (*ngram.HeldOut, error)) (*ngram.HeldOut, error)
	// Settle keeps of the files that were found those that may be read.
	Settle(found []format.File) ([]format.File, error)
	// Pool returns the process pool of an Exec by its name.
	Pool(name string, c transform.Exec) (*program.Pool, error)
}

// compiler compiles a transform into c, which already has its name.
type compiler func(c *Compiled, t spec.Transform, given Deps) error

// compilers has the compilers of row transforms by type.
var compilers = map[string]compiler{
	"AssertEqual":        configured((*Compiled).assertEqual),
	"DecodeMail":         applies(compileDecodeMail),
	"Decontaminate":      drops(configured((*Compiled).decontaminate)),
	"DetectLanguage":     configured((*Compiled).language),
	"Exec":               configured((*Compiled).exec),
	"Explode":            drops(configured((*Compiled).explode)),
	"Filter":             drops(applies(compileFilter)),
	"HtmlToText":         applies(compileHTMLToText),
	"MapToFields":        applies(compileMap),
	"MaskPII":            configured((*Compiled).maskPII),
	"NormalizeText":      applies(compileNormalize),
	"Partition":          configured((*Compiled).partition),
	"Profile":            configured((*Compiled).profile),
	"QualityFilter":      configured((*Compiled).quality),
	"Sample":             drops(applies(compileSample)),
	"ValidateWithSchema": applies(compileValidate),
}

// cuts has the compilers of cuts by type. A segment ends at a cut, and the next one begins there.
var cuts = map[string]func(t spec.Transform, params map[string]any) (End, error){
	"Combine":     compileCombine,
	"Deduplicate": compileDedup,
}

// Compile compiles one row transform. Its rows are counted under the transform's name.
func Compile(t spec.Transform, given Deps) (c Compiled, err error) {
	c.name = t.Name
	if t.Name != t.Type { // a prefix is not needed for the only transform without a name
		c.prefix = t.Name + "/"
	}
	compile := compilers[t.Type]
	if compile == nil {
		return c, fmt.Errorf("there is no transform of type %q", t.Type)
	}
	err = compile(&c, t, given)
	return c, err
}

// configured returns a compiler that decodes the config and calls compile with it.
func configured[C any](compile func(c *Compiled, config C, given Deps) error) compiler {
	return func(c *Compiled, t spec.Transform, given Deps) error {
		config, err := rows.DecodeConfig[C](t)
		if err != nil {
			return err
		}
		return compile(c, config, given)
	}
}

// applies returns a compiler for a transform that changes, drops or rejects rows.
func applies[C any](compile func(C, map[string]any) (rowFunc, error)) compiler {
	return configured(func(c *Compiled, config C, given Deps) (err error) {
		c.Apply, err = compile(config, given.Params)
		return err
	})
}

// drops makes the rows that a transform drops count under its own name.
func drops(compile compiler) compiler {
	return func(c *Compiled, t spec.Transform, given Deps) error {
		c.Rules = []string{t.Name}
		return compile(c, t, given)
	}
}

// mapText returns a rowFunc that rewrites text fields. Null stays null.
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
