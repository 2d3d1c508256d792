package kit

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/view"
	"github.com/sluiceml/sluice/connect/state"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/internal/human"
)

// StateVariable is the variable that sets the state folder if --state does not.
const StateVariable = "SLUICE_STATE"

// AddStrict adds commands to another. What they complain of the number of their arguments are usage errors, in words of ours.
func AddStrict(to *cobra.Command, commands ...*cobra.Command) {
	for _, c := range commands {
		strict(c)
		to.AddCommand(c)
	}
}

func strict(cmd *cobra.Command) {
	check := cmd.Args
	if check == nil {
		return
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			if given, none := cmd.Flags().GetStringArray("param"); none == nil { // `-p name value` makes an argument of the value
				if _, err := ParseParams(cmd, given); err != nil {
					return err
				}
			}
			return UsageError(cmd, fmt.Sprintf("usage: `%s`; got %s", strings.TrimSuffix(cmd.UseLine(), " [flags]"), human.Plural(int64(len(args)), "argument")))
		}
		return nil
	}
}

// Group makes a command of others, which shows its help when it is given none of them.
func Group(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return UnknownCommand(cmd, args[0])
		}
		return cmd.Help()
	}
	AddStrict(cmd, commands...)
	return cmd
}

// AddState gives all commands the flag --state. An empty one, as of a variable that a script has not set, would silently mean the working
// folder, and an empty argument the newest run.
func AddState(root *cobra.Command) {
	dir := cmp.Or(os.Getenv(StateVariable), state.Dir)
	root.PersistentFlags().String("state", dir, "state folder, also set by $"+StateVariable)
	root.PersistentPreRunE = func(cmd *cobra.Command, args []string) error {
		if slices.Contains(args, "") && !strings.HasPrefix(cmd.Name(), cobra.ShellCompRequestCmd) {
			return UsageError(cmd, "an argument is empty; perhaps a shell variable is not set")
		}
		if StateGiven(cmd) && StateDir(cmd) == "" {
			return UsageError(cmd, "--state is empty: name a folder, or omit the flag to use "+dir)
		}
		return nil
	}
}

// StateGiven reports whether the command line has --state, and not only the variable or the default.
func StateGiven(cmd *cobra.Command) bool { return cmd.Flags().Changed("state") }

// Arg is the argument at a place; empty for one that was left out.
func Arg(args []string, place int) string {
	if place < len(args) {
		return args[place]
	}
	return ""
}

// StateDir is the state folder a command was given.
func StateDir(cmd *cobra.Command) string {
	dir, _ := cmd.Flags().GetString("state")
	return dir
}

// SayWaiting returns what tells the user what a command waits for.
func SayWaiting(cmd *cobra.Command) func(what string) {
	return func(what string) { fmt.Fprintf(cmd.ErrOrStderr(), "sluice: %s\n", what) } //nolint:errcheck // it is waited for all the same
}

// AddFormat gives a command the flag --format, which is text, json or one of more.
func AddFormat(cmd *cobra.Command, more ...string) *string {
	formats := append([]string{"text", "json"}, more...)
	last := len(formats) - 1
	choice := strings.Join(formats[:last], ", ") + " or " + formats[last]
	format := cmd.Flags().String("format", "text", choice)
	before := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains(formats, *format) {
			return UsageError(cmd, fmt.Sprintf("--format must be %s, not %q", choice, *format))
		}
		if before != nil {
			return before(cmd, args)
		}
		return nil
	}
	Must(cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)))
	return format
}

// Print writes what a command found: v where --format says json, else text.
func Print(cmd *cobra.Command, format string, v any, text func(io.Writer) error) error {
	if format == "json" {
		return view.JSON(cmd.OutOrStdout(), v)
	}
	return text(cmd.OutOrStdout())
}

// Must panics on errors that only a programming mistake can cause.
func Must(err error) {
	if err != nil {
		panic(err)
	}
}

// AddEnvironment gives a command the flag -e.
func AddEnvironment(cmd *cobra.Command, env *string) {
	cmd.Flags().StringVarP(env, "env", "e", "", "environment: a file, or NAME for environments/NAME.yaml beside the pipeline")
	Must(cmd.RegisterFlagCompletionFunc("env", completeEnvironments))
	cmd.ValidArgsFunction = CompleteDocuments
}

// completeEnvironments completes the names of the pipeline's environments, and files where there are none.
func completeEnvironments(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	found, _ := filepath.Glob(control.EnvironmentPath(append(args, "pipeline.yaml")[0], "*")) // the pattern is well-formed, or matches nothing
	names := make([]string, len(found))
	for i, path := range found {
		names[i] = strings.TrimSuffix(filepath.Base(path), ".yaml")
	}
	return names, cobra.ShellCompDirectiveDefault
}

// CompleteDocuments completes names of YAML files.
func CompleteDocuments(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
}

// CompleteParams offers the parameters of the pipeline that is the first argument.
func CompleteParams(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	const done = cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	program, err := programOf(cmd, args)
	if err != nil {
		return nil, done
	}
	params := program.Pipeline().Params
	names := make([]string, 0, len(params))
	for _, name := range slices.Sorted(maps.Keys(params)) {
		names = append(names, name+"=\t"+params[name].Type)
	}
	return names, done
}

// CompleteSteps offers its steps.
func CompleteSteps(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	const done = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	program, err := programOf(cmd, args)
	if err != nil {
		return nil, done
	}
	var steps []string
	for _, node := range program.Graph() {
		steps = append(steps, node.ID+"\t"+string(node.Kind))
	}
	return steps, done
}

// programOf is the pipeline that is the first argument, with the environment of -e.
func programOf(cmd *cobra.Command, args []string) (*dsl.Program, error) {
	env, _ := cmd.Flags().GetString("env")
	req := control.SubmitRequest{PipelineFile: Arg(args, 0), EnvFile: env}
	return req.Program()
}

// SayLarge says what goes along with a run, where that is much, before it is read.
func SayLarge(cmd *cobra.Command, req control.SubmitRequest) error {
	large, err := control.Large(req, StateDir(cmd))
	if err == nil && large != "" {
		_, err = fmt.Fprintf(cmd.ErrOrStderr(), "sluice: %s\n", strings.ReplaceAll(large, "\n", "\n  "))
	}
	return err
}

// ParseParams reads the parameters of a pipeline.
func ParseParams(cmd *cobra.Command, given []string) (map[string]string, error) {
	return ParsePairs(cmd, "-p", "parameter", given)
}

// ParsePairs reads what a flag was given again and again as name=value.
func ParsePairs(cmd *cobra.Command, flag, noun string, given []string) (map[string]string, error) {
	pairs := make(map[string]string, len(given))
	for _, pair := range given {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, UsageError(cmd, fmt.Sprintf("%s needs name=value, such as %[1]s %s=1, not %[3]q", flag, cmp.Or(name, "name"), pair))
		}
		if _, twice := pairs[name]; twice {
			return nil, UsageError(cmd, fmt.Sprintf("%s %s is set twice", noun, name))
		}
		if !utf8.ValidString(pair) { // JSON would keep U+FFFD for it
			return nil, Invalidf("%s %s is %q, which is not UTF-8: use a file for bytes", noun, name, value)
		}
		pairs[name] = value
	}
	return pairs, nil
}
