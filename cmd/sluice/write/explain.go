package write

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/cmd/sluice/view"
	"github.com/sluiceml/sluice/dsl/document"
)

// NewExplain makes `sluice explain`.
func NewExplain() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain [CODE]",
		Short: "Explain a lint finding, with an example",
		Long: `Explain a lint finding: why it is an error or a warning, an example that has
it, and the same example without it. The code is shown in brackets, as in
error[ungated]. Without a code all codes are listed.`,
		Example: `  sluice explain ungated
  sluice explain`,
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []string
			for _, c := range document.Codes() {
				names = append(names, cobra.CompletionWithDesc(c.Name, c.Title))
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
	format := kit.AddFormat(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			all := document.Codes()
			return kit.Print(cmd, *format, all, func(out io.Writer) error { return view.ThemeOf(out).Codes(out, all) })
		}
		code, near, ok := document.Explain(args[0])
		if !ok {
			message := fmt.Sprintf("there is no code `%s`\nhelp: `sluice explain` lists the codes of findings; "+
				"`sluice schema` and docs/reference.md describe the kinds and keys of pipelines", args[0])
			if near != "" {
				message = fmt.Sprintf("there is no code `%s`\nhelp: did you mean `%s`?", args[0], near)
			}
			return kit.Invalidf("%s", message)
		}
		return kit.Print(cmd, *format, code, func(out io.Writer) error { return view.ThemeOf(out).Code(out, code) })
	}
	return cmd
}
