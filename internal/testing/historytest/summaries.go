package historytest

import (
	"testing"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
)

// checkSummaries fails the test where Temporal's UI would show the bare type of an activity, a child or a timer, or timers that run on
// although nothing waits for them.
func checkSummaries(t testing.TB, workflowID string, all *history.History) {
	t.Helper()
	timers := map[int64]string{}
	for _, event := range all.Events {
		summary := summaryOf(t, workflowID, event)
		switch event.EventType {
		case enums.EVENT_TYPE_MARKER_RECORDED:
			if isVerdict(event) && summary == "" {
				t.Errorf("%s: event %d, a side effect, has no summary", workflowID, event.EventId)
			}
		case enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, enums.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED:
			if summary == "" {
				t.Errorf("%s: event %d, %v, has no summary", workflowID, event.EventId, event.EventType)
			}
		case enums.EVENT_TYPE_TIMER_STARTED:
			timers[event.EventId] = summary
			if summary == "" || summary == "Sleep" || summary == "AwaitWithTimeout" { // the SDK's own
				t.Errorf("%s: event %d, a timer of %v, says %q of itself", workflowID, event.EventId,
					event.GetTimerStartedEventAttributes().GetStartToFireTimeout().AsDuration(), summary)
			}
		case enums.EVENT_TYPE_TIMER_FIRED:
			delete(timers, event.GetTimerFiredEventAttributes().GetStartedEventId())
		case enums.EVENT_TYPE_TIMER_CANCELED:
			delete(timers, event.GetTimerCanceledEventAttributes().GetStartedEventId())
		case enums.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
			if len(timers) > 1 { // one may be its clock
				t.Errorf("%s has completed with %d timers still running: %v", workflowID, len(timers), timers)
			}
		default:
		}
	}
}

// Verdicts are the summaries by which the history of a workflow says how what it did has ended, in their order.
func Verdicts(t testing.TB, c client.Client, workflowID string) []string {
	t.Helper()
	var found []string
	for _, event := range fetch(t, c, workflowID, "").Events {
		if isVerdict(event) {
			found = append(found, summaryOf(t, workflowID, event))
		}
	}
	return found
}

func isVerdict(event *history.HistoryEvent) bool {
	return event.GetMarkerRecordedEventAttributes().GetMarkerName() == "SideEffect"
}

func summaryOf(t testing.TB, workflowID string, event *history.HistoryEvent) (summary string) {
	t.Helper()
	if s := event.GetUserMetadata().GetSummary(); s != nil {
		if err := converter.GetDefaultDataConverter().FromPayload(s, &summary); err != nil {
			t.Errorf("%s: the summary of event %d: %v", workflowID, event.EventId, err)
		}
	}
	return summary
}
