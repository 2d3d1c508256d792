package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/cmd/sluice/view"
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
		if *format == "json" {
			return view.JSON(cmd.OutOrStdout(), v)
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "sluice %s (%s, %s; Temporal %s, Beam %s)\n", v.Sluice, v.Go, v.Platform, v.Temporal, v.Beam)
		return err
	}
	return cmd
}
