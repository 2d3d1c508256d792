package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
)

func newVersion() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
	}
	format := kit.AddFormat(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		v := kit.ReadVersions()
		return kit.Print(cmd, *format, v, func(out io.Writer) error {
			_, err := fmt.Fprintln(out, versionLine(v))
			return err
		})
	}
	return cmd
}

// versionLine is what `sluice version` and `sluice --version` print.
func versionLine(v kit.Versions) string {
	return fmt.Sprintf("sluice %s (%s, %s; Temporal %s, Beam %s)", v.Sluice, v.Go, v.Platform, v.Temporal, v.Beam)
}
