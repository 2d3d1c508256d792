package write

import (
	"bytes"
	"fmt"
	"io"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/document"
)

// exitUnformatted is what `fmt --check` ends with when a file is not laid out.
const exitUnformatted = 1

// NewFmt makes `sluice fmt`.
func NewFmt() *cobra.Command {
	var check, showDiff bool
	cmd := &cobra.Command{
		Use:   "fmt [FILE...]",
		Short: "Format pipelines and environments",
		Long: `Format pipelines and environments: indent with two spaces, put one space
between words, and remove trailing blanks. Only white space changes: comments,
the order of keys, quotes and block scalars are kept, and so is the meaning of
the document.

The names of the changed files are printed. Without a file, or with -, standard
input is formatted to standard output.`,
		Example: `  sluice fmt pipeline.yaml environments/*.yaml
  sluice fmt --check *.yaml
  sluice fmt --diff pipeline.yaml`,
	}
	cmd.ValidArgsFunction = kit.CompleteDocuments
	cmd.Flags().BoolVar(&check, "check", false, "only list the files that are not formatted, and exit with 1 if there are any")
	cmd.Flags().BoolVar(&showDiff, "diff", false, "only show what would change")
	cmd.RunE = func(cmd *cobra.Command, files []string) error {
		if len(files) == 0 {
			files = []string{"-"}
		}
		code := kit.ExitOK
		for _, file := range files {
			changed, findings, err := formatFile(cmd, file, check, showDiff)
			switch {
			case err != nil:
				return err
			case findings != nil: // the other files are laid out nonetheless
				kit.Complain(cmd.ErrOrStderr(), &control.LintError{Diagnostics: findings})
				code = kit.ExitInvalid
			case changed && check && code == kit.ExitOK:
				code = exitUnformatted
			}
		}
		if code != kit.ExitOK {
			return kit.ExitWith(code)
		}
		return nil
	}
	return cmd
}

// formatFile lays one file out, or says what would change. The findings say why it cannot be.
func formatFile(cmd *cobra.Command, file string, check, showDiff bool) (changed bool, findings document.Diagnostics, err error) {
	name, source, err := readInput(cmd, file)
	if err != nil {
		return false, nil, err
	}
	text, findings := document.Format(document.File{Name: name, Source: source})
	if findings != nil {
		return false, findings, nil
	}
	out := cmd.OutOrStdout()
	changed = !bytes.Equal(source, text)
	switch {
	case file == "-" && !check && !showDiff:
		_, err = out.Write(text)
	case !changed:
	case showDiff:
		_, err = out.Write(diff.Diff(name, source, name+" (formatted)", text))
	case check:
		_, err = fmt.Fprintln(out, name)
	default:
		if err = kit.WriteFile(file, text); err == nil {
			_, err = fmt.Fprintln(out, name)
		}
	}
	return changed, nil, err
}

// readInput reads a document, or standard input for -.
func readInput(cmd *cobra.Command, file string) (name string, source []byte, err error) {
	if file == "-" {
		source, err = io.ReadAll(io.LimitReader(cmd.InOrStdin(), document.MaxSource+1))
		return "<stdin>", source, err
	}
	if source, err = control.ReadDocument(file); err != nil {
		return "", nil, fmt.Errorf("read the file: %w", err)
	}
	return file, source, nil
}
