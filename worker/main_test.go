package worker

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/sluiceml/sluice/connect/state"
	"github.com/sluiceml/sluice/pipelines"
)

func TestMain(m *testing.M) {
	pipelines.WorkerMain()
	if len(os.Args) > 1 && os.Args[1] == pipelines.Arg { // the child of a cleaning
		if err := pipelines.Main(context.Background(), os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	for _, name := range []string{"TEMPORAL_ADDRESS", "TEMPORAL_PROFILE", "TEMPORAL_CONFIG_FILE", state.StoreVariable} {
		os.Unsetenv(name) // of whoever runs the tests
	}
	code := m.Run()
	if err := closeShared(); err != nil {
		fmt.Fprintln(os.Stderr, "close the tests' session:", err)
		code = 1
	}
	os.Exit(code)
}
