package main

import "github.com/spf13/cobra"

// newExitCodes makes a help topic: a command that cannot be run.
func newExitCodes() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "The exit codes of sluice",
		Long: `The exit code tells what kind of problem occurred, so that scripts need not
parse messages:

    0  success; also if a gate stopped the run (on_fail: stop), or another run
       held the concurrency group (on_conflict: skip), which are normal ends;
       with --fail-declined, a run that a gate stopped ends with 4
    1  infrastructure: a process, disk, network or server failed, or Sluice
       itself
    2  invalid: the pipeline, the environment, a parameter or the command line
    3  user: a program of the pipeline failed, or its data is missing or
       unusable
    4  gate: a gate failed, an approval was rejected, or a rollout was rolled
       back
    5  timeout: a step exceeded its timeout
    6  budget: the run exceeded its budget
    7  preempted: machines were preempted more often than the step allows
  130  canceled, by a person or with Ctrl-C
  131, 143, 129  the command ended on Ctrl-\ (SIGQUIT), SIGTERM or SIGHUP: the
       result is not known yet, since the run continues

The exit code of a run is that of the first step that failed.`,
	}
}
