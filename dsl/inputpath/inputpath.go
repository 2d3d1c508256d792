// Package inputpath stands for the folders of a step's inputs where they are not known yet. A path of one machine never enters a resolved
// spec, on which cache keys depend: it has tokens with digests, which are replaced by folders on the node that has the artifacts.
package inputpath

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

const prefix = "{{sluice:inputs."

var token = regexp.MustCompile(`\{\{sluice:inputs\.([a-z][a-z0-9_]*)@[^{}]*\}\}`)

// Token is what ${inputs.NAME.path} resolves to, for an artifact's digest.
func Token(name, digest string) string { return prefix + name + "@" + digest + "}}" }

// IsIn reports whether a resolved path has a token.
func IsIn(path string) bool { return strings.Contains(path, prefix) }

// Within reports whether a resolved path that has a token stays in the folder of that input.
func Within(path string) bool {
	return strings.HasPrefix(path, prefix) && !slices.Contains(strings.Split(path, "/"), "..")
}

// Replace puts folders in the place of tokens; dirs maps an input's name to its folder. A token for a name that is not in dirs is an error.
func Replace(s string, dirs map[string]string) (string, error) {
	if !strings.Contains(s, "{{sluice:") {
		return s, nil
	}
	var missing []string
	out := token.ReplaceAllStringFunc(s, func(found string) string {
		name := token.FindStringSubmatch(found)[1]
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
