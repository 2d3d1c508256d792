// Package write has the commands for writing pipelines: init, schema, lint, explain, fmt, plan and simulate.
package write

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/examples"
)

//go:embed starter
var starter embed.FS

// template is what `sluice init` writes.
type template struct {
	about  string
	files  fs.FS
	folder string
}

// templates are the available templates, by name.
var templates = map[string]template{
	"line":    {"three programs of your own with gates between them; needs Python alone", starter, "starter/line"},
	"text":    {"a corpus of texts, cleaned and published as a dataset; needs Python alone", starter, "starter/text"},
	"train":   {"a training that survives the loss of its machine; needs Python alone", starter, "starter/train"},
	"retrain": {"a served model, retrained every night and when the data drift; needs numpy, onnx and onnxruntime", examples.Files, "retrain"},
}

const (
	defaultTemplate = "line"
	// schemaFile is what editors read beside a pipeline; it is no part of the pipeline.
	schemaFile = "schema.json"
	ignoreFile = ".sluiceignore"
	// schemaLine tells editors so.
	schemaLine = "# yaml-language-server: $schema=" + schemaFile + "\n"
)

// NewInit makes `sluice init`.
func NewInit() *cobra.Command {
	names := slices.Sorted(maps.Keys(templates))
	var known strings.Builder
	for _, name := range names {
		fmt.Fprintf(&known, "    %-8s %s\n", name, strings.ReplaceAll(templates[name].about, "; ", ";\n             "))
	}
	cmd := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Create a small pipeline to start from",
		Long: `Write a small commented pipeline, an environment and the scripts of its steps to
a folder, by default the current one. The pipeline runs as it is. Existing files
are never overwritten. The templates are

` + known.String() + `
` + schemaFile + ` is written too: with it, an editor with a YAML language server
completes and explains keys. ` + "`sluice schema`" + ` writes it for an existing
pipeline.`,
		Example: `  sluice init my-pipeline
  sluice init --template train my-training`,
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	name := cmd.Flags().String("template", defaultTemplate, strings.Join(names, ", "))
	kit.Must(cmd.RegisterFlagCompletionFunc("template", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir := cmp.Or(kit.Arg(args, 0), ".")
		t, ok := templates[*name]
		if !ok {
			return kit.Invalidf("there is no template %q\nhelp: there are %s", *name, strings.Join(names, ", "))
		}
		files, err := t.content()
		if err != nil {
			return err
		}
		if err := writeStarter(dir, files); err != nil {
			return err
		}
		enter := ""
		if dir != "." {
			enter = "  cd " + dir + "\n"
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "wrote %s\n\n%s  sluice lint pipeline.yaml -e environment.yaml\n  sluice run pipeline.yaml -e environment.yaml\n",
			strings.Join(slices.Sorted(maps.Keys(files)), ", "), enter)
		return err
	}
	return cmd
}

// content is the template's files, by name, with what an editor needs.
func (t template) content() (map[string][]byte, error) {
	files := map[string][]byte{schemaFile: dsl.Schema, ignoreFile: []byte("# Files that the steps do not need, as in a .gitignore.\n/" + schemaFile + "\n")}
	entries, err := fs.ReadDir(t.files, t.folder)
	for _, entry := range entries {
		content, err := fs.ReadFile(t.files, path.Join(t.folder, entry.Name()))
		if err != nil {
			return nil, err
		}
		if path.Ext(entry.Name()) == ".yaml" {
			content = append([]byte(schemaLine), content...)
		}
		files[entry.Name()] = content
	}
	return files, err
}

// NewSchema makes `sluice schema`.
func NewSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of pipelines and environments, for editors",
		Long: `Print the JSON Schema of pipelines and environments. An editor with a YAML
language server (VS Code with the YAML extension, Neovim, Emacs, IntelliJ and
others) uses it to complete and explain keys. Write it to a file beside the
pipeline, and refer to it in the first line of both documents:

    ` + strings.TrimSpace(schemaLine),
		Example: `  sluice schema > ` + schemaFile,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(dsl.Schema)
			return err
		},
	}
}

// writeStarter writes all files, or none when one of them is there.
func writeStarter(dir string, files map[string][]byte) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return kit.Invalidf("%s already exists, and nothing was written\nhelp: use another folder, as in `sluice init my-pipeline`", filepath.Join(dir, name))
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, content := range files {
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
