package pipelines

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/pipelines/columns"
	"github.com/sluiceml/sluice/pipelines/spill"
)

func init() { register.DoFn2x1[string, func(*[]byte) bool, error](&profileFn{}) }

// profileName is the name of the profile's file in the work folder.
const profileName = "profile.json"

// profileFn merges the profiles of all shards, and writes the result and the dataset's schema.
type profileFn struct {
	Work string
}

// ProcessElement merges the profiles of all shards.
func (f *profileFn) ProcessElement(_ string, packed func(*[]byte) bool) error {
	s := sessionOf(f.Work)
	var text []byte
	merged := columns.NewProfile()
	for packed(&text) {
		p, err := columns.ParseProfile(text)
		if err != nil {
			return s.failed(err)
		}
		merged.Merge(p)
	}
	return s.failed(writeProfile(f.Work, merged))
}

func writeProfile(work string, p *columns.Profile) error {
	return errors.Join(
		spill.WriteJSON(filepath.Join(work, profileName), p),
		spill.WriteJSON(filepath.Join(work, "out", "schema.json"), p.Schema()),
	)
}

// summary returns the part of the profile that expressions can read.
func summary(work string) (spec.Profile, error) {
	text, err := os.ReadFile(filepath.Join(work, profileName))
	if err != nil {
		return spec.Profile{}, err
	}
	p, err := columns.ParseProfile(text)
	if err != nil {
		return spec.Profile{}, err
	}
	return p.Summary(), nil
}
