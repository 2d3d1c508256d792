package spec

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// InputPath is what ${inputs.NAME.path} resolves to: a token with the artifact's digest, replaced by a folder on the node that has
// the artifact. So a path of one machine never enters a resolved spec.
func InputPath(name, digest string) string { return inputPrefix + name + "@" + digest + "}}" }

const inputPrefix = "{{sluice:inputs."

// IsInInput reports whether a resolved path is in an input.
func IsInInput(path string) bool { return strings.Contains(path, inputPrefix) }

var inputToken = regexp.MustCompile(`\{\{sluice:inputs\.([a-z][a-z0-9_]*)@[^{}]*\}\}`)

// ReplaceInputPaths puts folders in the place of tokens; dirs maps an input's name to its folder. A token for a name that is not in
// dirs is an error.
func ReplaceInputPaths(s string, dirs map[string]string) (string, error) {
	if !strings.Contains(s, "{{sluice:") {
		return s, nil
	}
	var missing []string
	out := inputToken.ReplaceAllStringFunc(s, func(token string) string {
		name := inputToken.FindStringSubmatch(token)[1]
		dir, ok := dirs[name]
		if !ok {
			missing = append(missing, name)
		}
		return dir
	})
	if len(missing) > 0 {
		return "", fmt.Errorf("there is no input `%s`; the inputs are %v", missing[0], slices.Sorted(maps.Keys(dirs)))
	}
	return out, nil
}

// WithInputs returns the spec with the folders of its inputs in the place of the tokens for them.
func (spec Clean) WithInputs(dirs map[string]string) (Clean, error) {
	raw, err := Encode(spec)
	if err != nil {
		return spec, err
	}
	quoted := make(map[string]string, len(dirs))
	for name, path := range dirs { // a path is put inside JSON strings
		text, err := Encode(path)
		if err != nil {
			return spec, err
		}
		quoted[name] = string(text[1 : len(text)-1])
	}
	filled, err := ReplaceInputPaths(string(raw), quoted)
	if err != nil {
		return spec, err
	}
	var out Clean
	err = json.Unmarshal([]byte(filled), &out)
	return out, err
}
