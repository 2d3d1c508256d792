package proc_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluiceml/sluice/internal/proc"
)

// asParent makes the test binary a parent to be killed: it starts its arguments as a command and waits.
const asParent = "as-parent"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == asParent {
		p, err := proc.Start(context.Background(), proc.Command{Path: os.Args[2], Args: os.Args[3:], Stdout: os.Stdout})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		<-p.Done()
		return
	}
	goleak.VerifyTestMain(m)
}
