package durable

import (
	"encoding/json"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/store/record"
)

// Limits of a Temporal server, by default, and how workflows stay below them. docs/operations.md has this table for users.
//
//	limit                                            how
//	4 MiB a request, 4 MiB a transaction             payloads above record.PayloadLimit are moved to the store (connect/codec); admit ends a
//	                                                 workflow task from maxTask on; errors are cut (connect/codec)
//	2 MiB a blob, 2 MiB of query and update results  payloads are moved to the store
//	50 MiB and 51,200 events a history               IsLong: by LongHistory, and when the server suggests it, at 4 MiB or 4,096 events
//	2 MiB of events that wait for a workflow task    at most 100 steps, or 64 instances, end at once, each with at most record.PayloadLimit
//	2,000 pending activities                         100 steps a run, 64 instances a lane, 64 nodes a local gang (others: lint)
//	2,000 pending children                           100 steps a run; lanes: 1,000 instances at once in lanes of 64
//	2,000 pending signals, and cancel requests       one of each for each lane; a workflow waits for those that it sends repeatedly
//	10,000 signals a history                         lanes and trainings report about 20 times; a lock continues as new by IsLong
//	10 updates in flight, 2,000 a history            a person decides or gives orders; what is invalid is rejected before it is accepted
//	2 MiB of memo                                    triggers have a mark of one digest
//	2 KiB a search attribute, 40 KiB together        addLabel keeps the newest names
//	400 bytes a summary                              Summary
//	1,000 bytes a workflow ID                        names are at most 63 bytes, and child pipelines nest at most 8 deep
const (
	// maxTask is how many bytes of commands a workflow task may have when another command is issued. What has been issued before it is
	// reached, and ends after it, adds less than 1 MiB, and so do events that are recorded together with the commands.
	maxTask = 1 << 20
	// perCommand is the size of a command without its payloads, in bytes: names, timeouts and a summary.
	perCommand = 1 << 10
)

// Admit waits before a command with this input until the workflow task has room for it, and counts the command. The workflow task that has
// no room ends, because all that it still does waits for a timer.
func Admit(ctx workflow.Context, in any) {
	admit(ctx)
	weigh(ctx, in)
}

func admit(ctx workflow.Context) {
	apart, _ := workflow.NewDisconnectedContext(ctx)
	for g := growthOf(ctx); g != nil && g.bytes >= maxTask; g = growthOf(ctx) {
		if g.turn == nil {
			g.turn = workflow.NewTimerWithOptions(apart, time.Millisecond, workflow.TimerOptions{Summary: "limit of a request: the next workflow task goes on"})
		}
		turn := g.turn
		_ = turn.Get(apart, nil) // nothing cancels it
		if g.turn == turn {
			g.turn, g.bytes = nil, 0
		}
	}
}

// weigh counts the bytes of a payload that a command of this workflow task carries.
func weigh(ctx workflow.Context, payload any) {
	if g := growthOf(ctx); g != nil {
		raw, _ := json.Marshal(payload) //nolint:errchkjson // Temporal's converter reports what cannot be encoded
		g.bytes += min(len(raw), record.PayloadLimit) + perCommand
	}
}
