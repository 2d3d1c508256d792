package runner

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/apache/beam/sdks/v2/go/container/tools"
	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/harness"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/util/grpcx"
	"google.golang.org/protobuf/encoding/protojson"
)

// processConfig returns the configuration of a process environment, as CreateEnvironment expects it.
func processConfig(program string, env map[string]string) (string, error) {
	text, err := protojson.Marshal(&pipepb.ProcessPayload{Command: program, Env: env})
	return string(text), err
}

// provisionFlag identifies a worker's command line: no other flag of this program begins with it.
const provisionFlag = "--provision_endpoint="

// IsWorker reports whether a runner has started this process as a worker, from the process's arguments.
func IsWorker(args []string) bool {
	return slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, provisionFlag) })
}

// Work is the main function of a worker process: it executes what the runner sends until the runner ends. The worker is this same program,
// so it has no artifacts to fetch.
func Work(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("worker", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	id := flags.String("id", "", "")
	provision := flags.String("provision_endpoint", "", "")
	if err := flags.Parse(args); err != nil || *id == "" {
		return fmt.Errorf("not the arguments of a Beam worker: %q", args)
	}
	if !beam.Initialized() {
		beam.Init()
	}
	return work(ctx, *id, *provision)
}

// work runs one worker in this process.
func work(ctx context.Context, id, provision string) error {
	ctx = grpcx.WriteWorkerID(ctx, id)
	info, err := tools.ProvisionInfo(ctx, provision)
	if err != nil {
		return fmt.Errorf("get the configuration from the runner at %s: %w", provision, err)
	}
	logging, control := info.GetLoggingEndpoint().GetUrl(), info.GetControlEndpoint().GetUrl()
	if logging == "" || control == "" {
		return errors.New("the runner's configuration lacks the logging or control endpoint")
	}
	fmt.Fprintf(os.Stderr, "worker %s of the runner at %s\n", id, control)
	return harness.MainWithOptions(ctx, logging, control, harness.Options{
		RunnerCapabilities: info.GetRunnerCapabilities(), StatusEndpoint: info.GetStatusEndpoint().GetUrl(),
	})
}
