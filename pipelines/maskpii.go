package pipelines

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/sluiceml/sluice/dsl"
)

// masks replace personal data by kind.
var masks = map[string]struct {
	pattern *regexp.Regexp
	with    string
}{
	// RFC 5322's dot-atom before the @, a domain name of two labels or more after it.
	"email": {regexp.MustCompile("[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]+@[A-Za-z0-9-]+(?:\\.[A-Za-z0-9-]+)+"), "<EMAIL>"},
}

// compileMask masks personal data.
func compileMask(c dsl.MaskPII, _ map[string]any) (rowFunc, error) {
	kinds := slices.Clone(c.Kinds)
	if len(kinds) == 0 {
		for kind := range masks {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	for _, kind := range kinds {
		if _, ok := masks[kind]; !ok {
			return nil, fmt.Errorf("kinds: %q is no kind of personal data this version masks: email", kind)
		}
	}
	return mapText(c.Fields, func(s string) string {
		for _, kind := range kinds {
			s = masks[kind].pattern.ReplaceAllLiteralString(s, masks[kind].with)
		}
		return s
	})
}
