package durable

import (
	"strings"

	"go.temporal.io/sdk/workflow"
)

// maxSummary limits a summary, in bytes: a server may reject a payload of more than 400 (limit.userMetadataSummarySize).
const maxSummary = 300

// Conclude records in the history how something ended, for Temporal's UI, which names events when they are scheduled, before their end is
// known.
func Conclude(ctx workflow.Context, about, end, why string) {
	grow(ctx)
	weigh(ctx, end)
	options := workflow.SideEffectOptions{Summary: Summary(about+": "+end, why)}
	workflow.SideEffectWithOptions(ctx, options, func(workflow.Context) any { return end })
}

// Summary is a title, with the first line of more where there is any.
func Summary(title, more string) string {
	more, _, _ = strings.Cut(more, "\n")
	if more != "" {
		title += ": " + more
	}
	if len(title) > maxSummary {
		title = strings.ToValidUTF8(title[:maxSummary], "") + "…"
	}
	return title
}
