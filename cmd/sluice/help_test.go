package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/internal/human"
)

// A terminal of 80 columns breaks wider lines in the middle of words.
func TestHelpFits(t *testing.T) {
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		var b bytes.Buffer
		cmd.SetOut(&b)
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if got := human.Width(strings.TrimRight(line, "\n")); got > 80 {
				t.Errorf("%s --help: a line has %d columns:\n%s", cmd.CommandPath(), got, line)
			}
		}
		for _, c := range cmd.Commands() {
			check(c)
		}
	}
	check(newRoot())
}
