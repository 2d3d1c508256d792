package main

import "github.com/spf13/cobra"

// newExitCodes is a help topic: a command that cannot be run.
func newExitCodes() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "What Sluice's exit codes mean",
		Long: `Sluice ends with a code that says what kind of thing went wrong, so that scripts need not read messages:

    0  all is well; also when a gate declined the result (on_fail: stop), or another run held the concurrency group
       (on_conflict: skip), which are normal ends
    1  infrastructure: a process, disk, network or server failed, or Sluice itself
    2  invalid: the pipeline, the environment, a parameter or the command line
    3  user: a program of the pipeline failed, or its data are not there or not as it needs them
    4  gate: a gate did not hold, or a rollout was rolled back
    5  timeout: a step took longer than its timeout
    6  budget: the run cost more than its budget
    7  preempted: machines were taken away, more often than the step allows
  130  canceled, by a person or by Ctrl-C
  131, 143, 129  left by Ctrl-\ (SIGQUIT), SIGTERM or SIGHUP: how the run ends is not known yet, since it goes on

A run has the code of the first step that failed.`,
	}
}
