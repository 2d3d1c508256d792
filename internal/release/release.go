// Package release says which release of Sluice a program is.
package release

import (
	"cmp"
	"runtime/debug"
)

// Linked is what the linker was told, by way of the program's main; empty for any other build than a release.
var Linked string

// Version is the release, or what Go noted at build time.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return Linked
	}
	return cmp.Or(Linked, info.Main.Version)
}
