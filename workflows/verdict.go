package workflows

import (
	"cmp"
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
)

// maxSummary bounds a summary, in bytes: a server may refuse a payload of more than 400 (limit.userMetadataSummarySize).
const maxSummary = 300

// conclude puts how something ended into the history, where Temporal's UI shows it: it names what is scheduled before its end is known.
func conclude(ctx workflow.Context, about, end, why string) {
	if !since(ctx, changeVerdicts) {
		return
	}
	options := workflow.SideEffectOptions{Summary: summaryOf(about+": "+end, why)}
	workflow.SideEffectWithOptions(ctx, options, func(workflow.Context) any { return end })
}

// concludeStep is conclude for a step, or an instance of one.
func concludeStep(ctx workflow.Context, id string, word contract.Judged) {
	conclude(ctx, id, string(word.Status), cmp.Or(word.Error, word.Summary))
}

// summaryOf is a title, with the first line of more where there is any.
func summaryOf(title, more string) string {
	more, _, _ = strings.Cut(more, "\n")
	if more != "" {
		title += ": " + more
	}
	if len(title) > maxSummary {
		title = strings.ToValidUTF8(title[:maxSummary], "") + "…"
	}
	return title
}
