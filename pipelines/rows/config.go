package rows

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/dsl/expr/value"
	"github.com/sluiceml/sluice/dsl/spec"
)

// PlainName reports whether s is a valid name for a folder: ASCII letters, digits, - and _.
func PlainName(s string) bool {
	return s != "" && len(s) <= 100 && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
}

// DecodeConfig decodes the config of a transform and applies defaults.
func DecodeConfig[C any](t spec.Transform) (config C, err error) {
	config = spec.DefaultsOf[C]()
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

// OneOf checks that a value of a config is one of the choices. The default is the first.
func OneOf(key, value string, choices ...string) (string, error) {
	if value == "" {
		return choices[0], nil
	}
	if !slices.Contains(choices, value) {
		return "", fmt.Errorf("%s: %q is not one of %q", key, value, choices)
	}
	return value, nil
}

// TextFields returns the texts of fields, and "" for null. It rejects the row if a field is missing or is not a string.
func TextFields(r Row, fields []string) ([]string, error) {
	texts := make([]string, len(fields))
	for i, name := range fields {
		v, ok := r[name]
		if !ok {
			return nil, Reject("missing_field", "the row has no field %s", name)
		}
		if texts[i], ok = v.(string); !ok && v != nil {
			return nil, Reject("not_text", "field %s is of type %s, not a string", name, value.TypeName(v))
		}
	}
	return texts, nil
}
