package store

import (
	"strings"

	"github.com/sluiceml/sluice/internal/fault"
)

const (
	maxKey  = 512
	maxPart = 200
)

// checkKeys checks all keys of a Write.
func checkKeys(key string, opts WriteOptions) error {
	if err := checkKey(key); err != nil || opts.LinkAs == "" {
		return err
	}
	return checkKey(opts.LinkAs)
}

// checkKey returns ErrKey, with the reason, if no driver accepts the key. It has a type, for to try again would not help.
func checkKey(key string) error {
	if len(key) > maxKey {
		return fault.Errorf(fault.Invalid, "%w %q...: it has %d bytes, more than the maximum of %d", ErrKey, key[:40], len(key), maxKey)
	}
	for part := range strings.SplitSeq(key, "/") {
		switch {
		case part == "" || part == "." || part == "..":
			return fault.Errorf(fault.Invalid, "%w %q: not a clean relative path", ErrKey, key)
		case len(part) > maxPart:
			return fault.Errorf(fault.Invalid, "%w %q: a part has %d bytes, more than the maximum of %d", ErrKey, key, len(part), maxPart)
		}
	}
	return checkChars(key)
}

func checkChars(key string) error {
	for _, c := range key {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.ContainsRune("._=@+-/", c):
		default:
			return fault.Errorf(fault.Invalid, "%w %q: %q is not allowed; use letters, digits and ._=@+-/", ErrKey, key, c)
		}
	}
	return nil
}
