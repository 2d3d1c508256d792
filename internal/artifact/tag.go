package artifact

import (
	"fmt"
	"regexp"
	"strings"
)

// LeastDigits is how many digits of its digest a version is named by at least.
const LeastDigits = 4

var (
	tagForm    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	digitsForm = regexp.MustCompile(fmt.Sprintf(`^[0-9a-f]{%d,64}$`, LeastDigits))
)

// FitsTag reports whether a text may be a tag of a version, which is a part of a key of the store.
func FitsTag(text string) bool { return tagForm.MatchString(text) }

// LooksLikeVersion reports whether a text may be the beginning of a version, which no tag can be.
func LooksLikeVersion(text string) bool { return digitsForm.MatchString(text) }

// shownDigits is how much of a digest stands for a version where it is shown.
const shownDigits = 12

// ShortVersion names a version by the first digits of its digest.
func ShortVersion(digest string) string {
	digits := strings.TrimPrefix(digest, "sha256:")
	return digits[:min(shownDigits, len(digits))]
}
