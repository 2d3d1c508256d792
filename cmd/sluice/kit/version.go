package kit

import (
	"runtime"
	"runtime/debug"

	"github.com/sluiceml/sluice/internal/release"
)

// Versions are the versions that matter in a bug report.
type Versions struct {
	Sluice   string `json:"sluice"`
	Commit   string `json:"commit,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Temporal string `json:"temporal"`
	Beam     string `json:"beam"`
}

// ReadVersions takes what the linker was told, and the rest from what Go noted at build time.
func ReadVersions() Versions {
	v := Versions{Sluice: release.Version(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Commit = s.Value
		}
	}
	for _, dep := range info.Deps {
		switch dep.Path {
		case "go.temporal.io/server":
			v.Temporal = dep.Version
		case "github.com/apache/beam/sdks/v2":
			v.Beam = dep.Version
		}
	}
	return v
}
