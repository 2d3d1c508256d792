package kit

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluiceml/sluice/internal/suggest"
)

// UnknownCommand is the error of a command that group does not have.
func UnknownCommand(group *cobra.Command, name string) error {
	_, path, _ := strings.Cut(group.CommandPath()+" "+name, " ")
	message := fmt.Sprintf("unknown command `%s`", path)
	group.SuggestionsMinimumDistance = 2
	if near := group.SuggestionsFor(name); len(near) > 0 {
		return Invalidf("%s\nhelp: did you mean `%s`?", message, strings.Join(near, "` or `"))
	}
	return UsageError(group, message)
}

// FlagError is the error of flags that cannot be read. A group of commands has none of its own, so what was misspelt is the command.
func FlagError(cmd *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return UsageError(cmd, err.Error())
	}
	if cmd.HasSubCommands() && cmd.Flags().NArg() > 0 {
		return UnknownCommand(cmd, cmd.Flags().Arg(0))
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	meant := suggest.To(unknown.GetSpecifiedName(), names)
	if unknown.GetSpecifiedName() == "json" && cmd.Flags().Lookup("format") != nil {
		meant = "format json"
	}
	if meant == "" || unknown.GetSpecifiedShortnames() != "" {
		return UsageError(cmd, err.Error())
	}
	return Invalidf("%s\nhelp: did you mean `--%s`?", err, meant)
}
