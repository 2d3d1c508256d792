package pipelines

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/pipelines/profile"
	"github.com/sluiceml/sluice/pipelines/rows"
)

func init() { register.DoFn2x1[string, func(*[]byte) bool, error](&profileFn{}) }

// columns are computed for the profile, by name.
type columns map[string]*dsl.RowProgram

// profiles compiles a Profile.
func (c *rowTransform) profiles(t dsl.Transform, given givens) error {
	config, err := rows.DecodeConfig[dsl.ProfileRows](t)
	if err == nil {
		c.profile, err = compileColumns(config.Columns, given.params)
	}
	return err
}

func compileColumns(computed map[string]dsl.Expr, params map[string]any) (columns, error) {
	all := make(columns, len(computed))
	for name, e := range computed {
		var err error
		if all[name], err = dsl.CompileRow(e, params); err != nil {
			return nil, fault.New(fault.Invalid, "profile: column %s: %w", name, err)
		}
	}
	return all, nil
}

// describe adds a row to the profile of its shard.
func (c columns) describe(to *profile.Profile, part string, r rows.Row) error {
	var computed map[string]any
	for name, program := range c {
		if computed == nil {
			computed = make(map[string]any, len(c))
		}
		v, err := program.Eval(r)
		if err != nil { // the row was kept: what cannot be computed of it is one of the column's nulls
			v = nil
		}
		computed[name] = v
	}
	if err := to.Add(part, r, computed); err != nil {
		return fault.New(fault.User, "%w", err)
	}
	return nil
}

// profileName is the profile in the work folder.
const profileName = "profile.json"

// profileFn merges the profiles of all shards and writes the profile, and the schema beside the rows.
type profileFn struct {
	Work string
}

// ProcessElement takes the profiles of all shards.
func (f *profileFn) ProcessElement(_ string, packed func(*[]byte) bool) error {
	s := sessionOf(f.Work)
	var text []byte
	merged := profile.New()
	for packed(&text) {
		p, err := profile.Parse(text)
		if err != nil {
			return s.failed(err)
		}
		merged.Merge(p)
	}
	return s.failed(writeProfile(f.Work, merged))
}

func writeProfile(work string, p *profile.Profile) error {
	return errors.Join(
		writeJSON(filepath.Join(work, profileName), p),
		writeJSON(filepath.Join(work, "out", "schema.json"), p.Schema()),
	)
}

func writeJSON(path string, v any) error {
	return createSynced(path, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(v)
	})
}

// summary is what expressions see of the profile.
func summary(work string) (dsl.Profile, error) {
	text, err := os.ReadFile(filepath.Join(work, profileName))
	if err != nil {
		return dsl.Profile{}, err
	}
	p, err := profile.Parse(text)
	if err != nil {
		return dsl.Profile{}, err
	}
	return p.Summary(), nil
}
