package kit

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/suggest"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// FindRun opens the store and reads the run that the first argument names; without one, the newest.
func FindRun(cmd *cobra.Command, args []string) (*store.Store, record.Run, error) {
	s, err := OpenStore(cmd)
	if err != nil {
		return nil, record.Run{}, err
	}
	run, err := control.FindRun(cmd.Context(), s, Arg(args, 0))
	return s, run, err
}

// FindStep opens the store and makes out the run and step that are meant: one argument that is a step of the newest run means that. A step may
// be one instance of it, fit.3, and is empty when none is named.
func FindStep(cmd *cobra.Command, args []string) (s *store.Store, run record.Run, step string, err error) {
	if s, err = OpenStore(cmd); err != nil {
		return nil, run, "", err
	}
	ctx := cmd.Context()
	switch len(args) {
	case 2:
		step = args[1]
	case 1:
		newest, err := control.FindRun(ctx, s, "")
		switch {
		case err == nil && hasStep(newest, args[0]):
			return s, newest, args[0], nil
		case err != nil && fault.TypeOf(err) != fault.Invalid:
			return nil, run, "", err
		} // without runs, it may be the ID of one that began a moment ago
	}
	if run, err = control.FindRun(ctx, s, Arg(args, 0)); err != nil {
		if len(args) == 1 {
			err = suggestStep(cmd, s, args[0], err)
		}
		return nil, run, "", err
	}
	if step != "" && !hasStep(run, step) {
		return nil, run, "", fault.Errorf(fault.Invalid, "run %s has no step `%s`%s", run.Run, step, suggest.Help(step, stepsOf(run)))
	}
	return s, run, step, nil
}

// suggestStep adds to the error of a name that no run has the newest run with a step of that name, or a near step of the newest run.
func suggestStep(cmd *cobra.Command, s *store.Store, name string, failed error) error {
	all, err := record.Runs(cmd.Context(), s)
	own, _ := record.Apart(all)
	if err != nil || len(own) == 0 || strings.Contains(fault.Message(failed), "\nhelp: ") {
		return failed
	}
	for _, r := range own {
		if run := (record.Run{RunRecord: r}); hasStep(run, name) {
			return fault.Errorf(fault.Invalid, "%s\nhelp: `%s` is a step of %s: `%s %[3]s %[2]s`", fault.Message(failed), name, r.Run, cmd.CommandPath())
		}
	}
	if near := suggest.To(name, stepsOf(record.Run{RunRecord: own[0]})); near != "" {
		return fault.Errorf(fault.Invalid, "%s\nhelp: did you mean `%s`, a step of %s?", fault.Message(failed), near, own[0].Run)
	}
	return failed
}

// stepsOf lists the names of a run's steps.
func stepsOf(run record.Run) []string {
	names := make([]string, len(run.Graph))
	for i, n := range run.Graph {
		names[i] = n.ID
	}
	return names
}

// hasStep reports whether a run has a step, or the step of an instance.
func hasStep(run record.Run, id string) bool {
	step, index := record.SplitStep(id)
	return slices.ContainsFunc(run.Graph, func(n spec.Node) bool {
		return n.ID == step && (index < 0 || n.Fan != spec.FanNone)
	})
}

// CompleteRunSteps offers the runs of the state folder for a first argument, and the run's steps for a second.
func CompleteRunSteps(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) != 1 {
		return CompleteRuns(cmd, args, prefix)
	}
	return CompleteStepsOfRun(cmd, args, prefix)
}

// CompleteStepsOfRun offers the steps of the run that is the first argument, or of the newest.
func CompleteStepsOfRun(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	_, run, err := FindRun(cmd, args)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, step := range run.Steps {
		names = append(names, step.Step+"\t"+string(step.Status))
	}
	return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}
