package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/view"
)

// release is the release that this program is; empty for any other build.
var release string

// versions are the versions that matter in a bug report.
type versions struct {
	Sluice   string `json:"sluice"`
	Commit   string `json:"commit,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Temporal string `json:"temporal"`
	Beam     string `json:"beam"`
}

func newVersion() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
	}
	format := addFormat(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		v := readVersions()
		if *format == "json" {
			return view.JSON(cmd.OutOrStdout(), v)
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "sluice %s (%s, %s; Temporal %s, Beam %s)\n", v.Sluice, v.Go, v.Platform, v.Temporal, v.Beam)
		return err
	}
	return cmd
}

// readVersions takes what the linker was told, and the rest from what Go noted at build time.
func readVersions() versions {
	v := versions{Sluice: release, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if v.Sluice == "" {
		v.Sluice = info.Main.Version
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
