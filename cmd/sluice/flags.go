package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/connect/state"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/internal/human"
)

// stateVariable names the state folder where --state does not.
const stateVariable = "SLUICE_STATE"

// strict makes a command's complaints about the number of its arguments usage errors, in words of ours.
func strict(cmd *cobra.Command) {
	check := cmd.Args
	if check == nil {
		return
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError(cmd, fmt.Sprintf("the command is `%s`, and here it has %s", strings.TrimSuffix(cmd.UseLine(), " [flags]"), human.Plural(int64(len(args)), "argument")))
		}
		return nil
	}
}

// addState gives all commands the flag --state.
func addState(root *cobra.Command) {
	dir := os.Getenv(stateVariable)
	if dir == "" {
		dir = state.Dir
	}
	root.PersistentFlags().String("state", dir, "state folder, also by $"+stateVariable)
}

// stateOf is the state folder a command was given.
func stateOf(cmd *cobra.Command) string {
	dir, _ := cmd.Flags().GetString("state")
	return dir
}

// addFormat gives a command the flag --format, which is text, json or one of more.
func addFormat(cmd *cobra.Command, more ...string) *string {
	formats := append([]string{"text", "json"}, more...)
	last := len(formats) - 1
	choice := strings.Join(formats[:last], ", ") + " or " + formats[last]
	format := cmd.Flags().String("format", "text", choice)
	before := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains(formats, *format) {
			return usageError(cmd, fmt.Sprintf("--format is %s, not %q", choice, *format))
		}
		if before != nil {
			return before(cmd, args)
		}
		return nil
	}
	must(cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)))
	return format
}

// must panics on errors that only a programming mistake can cause.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// addEnvironment gives a command the flag -e.
func addEnvironment(cmd *cobra.Command, env *string) {
	cmd.Flags().StringVarP(env, "env", "e", "", "environment: a file, or NAME for environments/NAME.yaml beside the pipeline")
	must(cmd.RegisterFlagCompletionFunc("env", completeEnvironments))
	cmd.ValidArgsFunction = completeDocuments
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

// completeDocuments completes names of YAML files.
func completeDocuments(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
}

// parseParams reads the parameters of a pipeline.
func parseParams(cmd *cobra.Command, given []string) (map[string]string, error) {
	return parsePairs(cmd, "-p", "parameter", given)
}

// parsePairs reads what a flag was given again and again as name=value.
func parsePairs(cmd *cobra.Command, flag, noun string, given []string) (map[string]string, error) {
	pairs := make(map[string]string, len(given))
	for _, pair := range given {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, usageError(cmd, fmt.Sprintf("%s wants name=value, not %q", flag, pair))
		}
		if _, twice := pairs[name]; twice {
			return nil, usageError(cmd, fmt.Sprintf("%s %s is given twice", noun, name))
		}
		pairs[name] = value
	}
	return pairs, nil
}
