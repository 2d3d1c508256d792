package main

import (
	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/internal/view"
	"github.com/sluiceml/sluice/worker"
)

func newPlan() *cobra.Command {
	var env string
	cmd := &cobra.Command{
		Use:   "plan FILE",
		Short: "Show what a pipeline would do, in which order, behind which gates",
		Long: `Show what a pipeline would do: its steps in the order they may start, with what each waits for and the gate it must pass.
Steps under one number run side by side. Nothing is run.

--format mermaid, dot and svg draw the graph: for Markdown, for Graphviz, and as a picture.`,
		Example: `  sluice plan pipeline.yaml
  sluice plan --format svg pipeline.yaml > pipeline.svg`,
		Args: cobra.ExactArgs(1),
	}
	addEnvironment(cmd, &env)
	format := addFormat(cmd, "mermaid", "dot", "svg")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		program, findings, err := load(args[0], env)
		if err != nil {
			return err
		}
		if program == nil {
			return &worker.LintError{Diagnostics: findings}
		}
		out := cmd.OutOrStdout()
		plan := view.NewPlan(program.Pipeline(), program.Graph(), nil)
		switch *format {
		case "json":
			return view.JSON(out, plan)
		case "mermaid":
			return view.Mermaid(out, plan)
		case "dot":
			return view.DOT(out, plan)
		case "svg":
			return view.SVG(out, plan)
		}
		return view.ThemeOf(out).Plan(out, plan)
	}
	return cmd
}
