package pipelines_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluiceml/sluice/pipelines"
)

func TestMain(m *testing.M) {
	pipelines.WorkerMain()
	if len(os.Args) > 1 && os.Args[1] == pipelines.Arg {
		if err := limitFiles(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if err := pipelines.Main(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		reportPeak()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
