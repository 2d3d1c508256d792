package training

import (
	"slices"
	"strings"
)

// The words by which registries, and what pulls from them, say that there is no such image, or none for these credentials. Some say both at
// once, and mean that they do not tell which.
var (
	noImage  = []string{"not found", "manifest unknown", "does not exist"}
	noAccess = []string{"access denied", "unauthorized", "authorization failed", "no basic auth credentials"}
)

// ImageRefusal returns the kind of refusal for an image that could not be pulled, by the error message: ErrInvalid if there is no such
// image, ErrPermission if it may not be pulled. Anything else, such as a registry that does not answer or limits the number of pulls, may
// pass. There is no better sign: the codes of the OCI distribution specification (MANIFEST_UNKNOWN, NAME_UNKNOWN, DENIED, UNAUTHORIZED)
// arrive through Docker and kubelets as text.
func ImageRefusal(said string) Refusal {
	said = strings.ToLower(strings.ReplaceAll(said, "_", " "))
	says := func(words string) bool { return strings.Contains(said, words) }
	switch {
	case slices.ContainsFunc(noImage, says):
		return ErrInvalid
	case slices.ContainsFunc(noAccess, says):
		return ErrPermission
	}
	return ErrNotStarted
}
