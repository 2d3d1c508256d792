package agent

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/client"

	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/ec2/imds/imdstest"
	"github.com/sluiceml/sluice/training/protocol"
)

// signals is a client that takes signals and does nothing else.
type signals struct {
	client.Client
	taken chan signalTaken
}

type signalTaken struct {
	Workflow, Name string
	Arg            any
}

func (s signals) SignalWorkflow(_ context.Context, workflow, _, name string, arg any) error {
	s.taken <- signalTaken{workflow, name, arg}
	return nil
}

// What EC2's metadata service tells reaches the train workflow.
func TestNoticeOfTheMetadataService(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	service := imdstest.Start(t, nil)
	taken := make(chan signalTaken, 1)
	n := &node{
		config: protocol.AgentConfig{Dir: t.TempDir()}, log: slog.New(slog.DiscardHandler), client: signals{taken: taken},
		prepared: &prepared{key: training.Key{Run: "r1", Step: "fit", Generation: 3}, index: 1, workflow: "train/r1/fit"},
	}
	go n.hearSpot(ctx, service.URL, time.Millisecond)
	go n.hearNotice(ctx)
	until := time.Now().Add(2 * time.Minute).UTC().Truncate(time.Second)
	service.Interrupt(until)
	want := signalTaken{"train/r1/fit", protocol.NoticeSignal, protocol.Notice{Generation: 3, Node: 1, Until: until}}
	select {
	case got := <-taken:
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the workflow was told (-want +got):\n%s", diff)
		}
	case <-ctx.Done():
		t.Fatal("the workflow was told nothing")
	}
}
