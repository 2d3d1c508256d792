// Package gputype compares the types of GPUs that steps ask for with the names that drivers, labels and environments give to GPUs.
package gputype

import (
	"slices"
	"strings"
	"unicode"
)

// Is reports whether the GPU with a name, such as NVIDIA L4, is of a type: whether all words of the type are words of the name.
func Is(name, gpuType string) bool {
	of := words(name)
	return !slices.ContainsFunc(words(gpuType), func(w string) bool { return !slices.Contains(of, w) })
}

func words(s string) []string {
	return strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}
