package training

import (
	"slices"
	"strings"
)

// noImage are the words by which registries, and what pulls from them, say that there is no such image, or none for these credentials.
var noImage = []string{"not found", "manifest unknown", "does not exist", "access denied", "unauthorized", "authorization failed", "no basic auth credentials"}

// NoImage reports whether what was said of an image that could not be pulled means that there is no such image, or that it may not be
// pulled. Anything else, such as a registry that does not answer or limits the number of pulls, may pass. There is no better sign of it: the
// OCI distribution specification's codes (MANIFEST_UNKNOWN, NAME_UNKNOWN, DENIED, UNAUTHORIZED) come through Docker and kubelets as text.
func NoImage(said string) bool {
	said = strings.ToLower(strings.ReplaceAll(said, "_", " "))
	return slices.ContainsFunc(noImage, func(words string) bool { return strings.Contains(said, words) })
}
