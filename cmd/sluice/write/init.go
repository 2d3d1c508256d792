// Package write is the commands for who writes a pipeline: init, lint, explain, fmt, plan and simulate.
package write

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
)

//go:embed starter
var starter embed.FS

// starterFiles are the files that `sluice init` writes.
var starterFiles = []string{"pipeline.yaml", "environment.yaml", "line.py"}

// NewInit makes `sluice init`.
func NewInit() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write a small pipeline to start from",
		Long: `Write a small commented pipeline, an environment and a script to start from into a folder, by default this one. It runs as it is: the
script needs Python and nothing else. Files that are there already are never overwritten.`,
		Example: `  sluice init my-pipeline`,
		Args:    cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir := "."
		if len(args) == 1 {
			dir = args[0]
		}
		if err := writeStarter(dir); err != nil {
			return err
		}
		enter := ""
		if dir != "." {
			enter = "  cd " + dir + "\n"
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "wrote %s\n\n%s  sluice lint pipeline.yaml -e environment.yaml\n  sluice run pipeline.yaml -e environment.yaml\n",
			strings.Join(starterFiles, ", "), enter)
		return err
	}
	return cmd
}

// writeStarter writes all files, or none when one of them is there.
func writeStarter(dir string) error {
	for _, name := range starterFiles {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return kit.Invalidf("%s is there already, and nothing was written\nhelp: name another folder, as in `sluice init my-pipeline`", filepath.Join(dir, name))
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range starterFiles {
		content, err := starter.ReadFile("starter/" + name)
		if err != nil {
			return err
		}
		if err := createFile(filepath.Join(dir, name), content); err != nil {
			return err
		}
	}
	return nil
}

// createFile writes a file that must not be there yet.
func createFile(path string, content []byte) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}
