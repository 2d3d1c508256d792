// Command sluice runs pipelines that take a model from raw data to live traffic, and everything around them: see `sluice help`.
//
// The same binary is also used for its child processes: the keeper of a process tree, a Beam worker, a cleaning, a measurement, and a
// cleaning or a compilation on a node of a pool. Which of these a process is must be known before any flag is parsed.
package main

import (
	"context"
	"fmt"
	"os"
	_ "time/tzdata" // the time zones of triggers, on images that have no files of them

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/compile"
	"github.com/sluiceml/sluice/internal/release"
	"github.com/sluiceml/sluice/internal/stepargs"
	"github.com/sluiceml/sluice/pipelines"
)

// version is set when a release is built: -ldflags "-X main.version=v1.2.3".
var version string

func main() {
	release.Linked = version
	pipelines.WorkerMain()
	os.Exit(run(os.Args[1:]))
}

// run is the process, unless it is a child process that takes over by itself.
func run(args []string) int {
	ctx := context.Background()
	if len(args) > 0 {
		switch args[0] {
		case pipelines.Arg:
			return childExit(pipelines.Main(ctx, os.Stdin, os.Stdout))
		case compile.Arg:
			return childExit(compile.Main(ctx, os.Stdin, os.Stdout))
		case stepargs.Compile:
			return nodeExit(compile.Program(ctx, args[1:], os.Stdout))
		case stepargs.Clean:
			return nodeExit(pipelines.NodeMain(ctx, args[1:], os.Stdout))
		}
	}
	return execute(ctx, args, os.Stdin, os.Stdout, os.Stderr)
}

// nodeExit returns the exit code of a process on a node of a pool, whose error goes to its log.
func nodeExit(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return childExit(err)
}

// childExit returns the exit code of a child process whose error has been sent to its parent as a message.
func childExit(err error) int {
	if err != nil {
		return kit.ExitInfrastructure
	}
	return kit.ExitOK
}
