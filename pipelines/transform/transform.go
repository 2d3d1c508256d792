package transform

import (
	"errors"
	"fmt"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines/program"
	"github.com/sluiceml/sluice/pipelines/rows"
	"github.com/sluiceml/sluice/pipelines/text/ngram"
)

// rowFunc transforms one row in place. A rows.Dropped drops it, a rows.Rejection sends it to the dead letter (the row is then as it came
// in), any other error ends the job. It may be called from several goroutines.
type rowFunc func(rows.Row) error

// Compiled is a compiled transform that sees one row at a time: it has one of Apply, Count, Route, Explode, Profile and Program.
type Compiled struct {
	name string

	Apply rowFunc
	// Count is a rowFunc that counts in namespaces of its own.
	Count func(r rows.Row, add func(space, name string)) error
	// Route names the output that a row goes to.
	Route func(rows.Row) (string, error)
	// Masks are the kinds that a MaskPII counts.
	Masks []string
	// Assertion is what an AssertEqual counts for.
	Assertion *Assertion
	Explode   explodeFunc
	Profile   Columns
	Program   *program.Pool

	// Rules are the names that rows it drops are counted under; prefix begins them when it has several.
	Rules  []string
	prefix string
}

// Rule returns the name that a drop is counted under.
func (c *Compiled) Rule(d *rows.Dropped) string {
	if d.Rule == "" {
		return c.name
	}
	return c.prefix + d.Rule
}

// Deps are what the transforms of a job are compiled with, beside their configs.
type Deps struct {
	Params map[string]any
	// Secrets are values by the variable that a config names.
	Secrets map[string]string
	Shared  Shared
}

// Shared is what the transforms of a job have in common in one process, however often each is compiled.
type Shared interface {
	// HeldOut returns what a Decontaminate, by its name, compares with. It is read once.
	HeldOut(name string, read func() (*ngram.HeldOut, error)) (*ngram.HeldOut, error)
	// Pool returns the processes of an Exec, by its name.
	Pool(name string, c transform.Exec) (*program.Pool, error)
}

// compiler compiles a transform, whose name c has, into c.
type compiler func(c *Compiled, t spec.Transform, given Deps) error

// compilers are those of the row transforms, by type.
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

// cuts compile the transforms that compare rows with others, by type: a segment ends at such a one, and the next begins.
var cuts = map[string]func(t spec.Transform, params map[string]any) (End, error){
	"Combine":     compileCombine,
	"Deduplicate": compileDedup,
}

// Compile compiles one row transform of the chain. It has the name it is counted under.
func Compile(t spec.Transform, given Deps) (c Compiled, err error) {
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

// configured makes a compiler of one for a decoded config.
func configured[C any](compile func(c *Compiled, config C, given Deps) error) compiler {
	return func(c *Compiled, t spec.Transform, given Deps) error {
		config, err := rows.DecodeConfig[C](t)
		if err != nil {
			return err
		}
		return compile(c, config, given)
	}
}

// applies makes a compiler of one for a transform that changes, drops or rejects rows.
func applies[C any](compile func(C, map[string]any) (rowFunc, error)) compiler {
	return configured(func(c *Compiled, config C, given Deps) (err error) {
		c.Apply, err = compile(config, given.Params)
		return err
	})
}

// drops has the rows that the transform drops counted under its own name.
func drops(compile compiler) compiler {
	return func(c *Compiled, t spec.Transform, given Deps) error {
		c.Rules = []string{t.Name}
		return compile(c, t, given)
	}
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
