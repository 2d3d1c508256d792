package write

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/cmd/sluice/view"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/environment"
)

// NewLint makes `sluice lint`.
func NewLint() *cobra.Command {
	var env string
	cmd := &cobra.Command{
		Use:   "lint FILE...",
		Short: "Check pipelines and environments without running anything",
		Long: `Check pipelines, environments and clean blocks without running anything:
unknown keys, the types of all expressions and references, cycles, gates that
can be bypassed, files, pools and targets. All findings are shown at once;
` + "`sluice explain CODE`" + ` explains one. The exit code is 2 if there are errors;
warnings do not affect it.

--format sarif is for code scanning services, and --format github for GitHub
Actions workflows, which show the findings beside the changed lines. A file
named - is standard input, whose folder is the working directory.`,
		Example: `  sluice lint pipeline.yaml
  sluice lint -e environment.yaml pipelines/*.yaml
  sluice lint --format sarif pipeline.yaml > findings.sarif`,
		Args: cobra.MinimumNArgs(1),
	}
	kit.AddEnvironment(cmd, &env)
	format := kit.AddFormat(cmd, "sarif", "github")
	cmd.RunE = func(cmd *cobra.Command, files []string) error {
		findings := document.Diagnostics{}
		var linted []string
		var unread []error // told at the end: a file that is missing hides no findings in others
		for _, file := range files {
			name, ds, err := lint(cmd, file, env)
			if err != nil {
				unread = append(unread, err)
				continue
			}
			linted, findings = append(linted, name), append(findings, ds...)
		}
		if len(linted) > 0 {
			if err := printFindings(cmd, *format, linted, findings); err != nil {
				return err
			}
		}
		if len(unread) > 0 {
			return errors.Join(unread...)
		}
		if findings.HasErrors() {
			return kit.ExitWith(kit.ExitInvalid)
		}
		return nil
	}
	return cmd
}

// lint returns what there is to say of a file, which is a pipeline, an environment or a cleaning block, and what it is called.
func lint(cmd *cobra.Command, file, env string) (string, document.Diagnostics, error) {
	name, source, err := readInput(cmd, file)
	if err != nil {
		return "", nil, err
	}
	pipeline := document.File{Name: name, Source: source}
	if control.IsEnvironment(source) {
		return name, lintEnvironment(pipeline), nil
	}
	against, err := control.ReadEnvironment(file, env)
	if err != nil {
		return "", nil, err
	}
	compile := dsl.Compile
	if control.IsBlock(source) {
		compile = dsl.CompileBlock
	}
	folder, err := control.OpenFolder(file, against)
	if err != nil {
		return "", nil, err
	}
	_, findings := compile(pipeline, against, folder)
	if env == "" {
		control.HintEnvironment(file, findings)
	}
	if e, _ := environment.LoadFile(against); against.Source != nil && e != nil {
		findings = append(control.CheckTemplates(against, e), findings...)
	}
	return name, findings, nil
}

func lintEnvironment(file document.File) document.Diagnostics {
	e, findings := environment.LoadFile(file)
	if e != nil {
		findings = append(findings, control.CheckTemplates(file, e)...)
		findings.Sort()
	}
	return findings
}

func printFindings(cmd *cobra.Command, format string, files []string, findings document.Diagnostics) error {
	out := cmd.OutOrStdout()
	switch format {
	case "json":
		return view.JSON(out, findings)
	case "sarif":
		return view.SARIF(out, kit.ReadVersions().Sluice, findings)
	case "github":
		return view.Annotations(out, findings)
	}
	if _, err := fmt.Fprint(out, findings.Text(view.ThemeOf(out).Color)); err != nil {
		return err
	}
	if len(findings) > 0 {
		return nil
	}
	for _, file := range files {
		if _, err := fmt.Fprintf(out, "%s: ok\n", file); err != nil {
			return err
		}
	}
	return nil
}
