package spec

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/internal/fault"
)

var update = flag.Bool("update", false, "write the tables of docs/pipelines.md")

// Where the tables are in docs/pipelines.md.
const (
	endsPage  = "../../docs/pipelines.md"
	endsBegin = "<!-- The two tables are written by `go generate ./dsl/spec` from dsl/spec/ends.go. -->\n"
	endsEnd   = "<!-- The end of the tables. -->\n"
)

// TestEndsPage keeps the tables of the documentation what the table in the code is.
func TestEndsPage(t *testing.T) {
	raw, err := os.ReadFile(endsPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(raw), endsBegin)
	_, after, closed := strings.Cut(rest, endsEnd)
	if !found || !closed {
		t.Fatalf("%s has no place for the tables", endsPage)
	}
	want := before + endsBegin + "\n" + endsOfSteps() + "\n" + endsOfRuns() + "\n" + endsEnd + after
	switch {
	case want == string(raw):
	case *update:
		if err := os.WriteFile(endsPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is stale: run `make generate`", endsPage)
	}
}

// name is an end as the documentation calls it.
func name(status Status, typ string) string {
	if status == StatusFailed && typ == "" {
		typ = fault.Infrastructure
	}
	if typ == "" || status == StatusDeclined {
		return "`" + string(status) + "`"
	}
	return fmt.Sprintf("`%s`, type `%s`", status, typ)
}

func endsOfSteps() string {
	b := strings.Builder{}
	b.WriteString("| a step is | because | a step that needs it `passed` | `not_failed` | `failed` | an instance counts as | the run ends as |\n")
	b.WriteString("|---|---|---|---|---|---|---|\n")
	for _, e := range ends {
		run := "`" + string(e.Run) + "`"
		if e.Run == StatusSucceeded && e.Status != StatusSucceeded {
			run = "the other steps determine"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", name(e.Status, e.Type), e.Causes, becomes(e.Passed), becomes(e.NotFailed), becomes(e.Failed), e.Instance, run)
	}
	return b.String()
}

func becomes(s Status) string {
	if s == StatusPending {
		return "runs"
	}
	return "`" + string(s) + "`"
}

func endsOfRuns() string {
	b := strings.Builder{}
	b.WriteString("| a run is | exit code | notification | accepted as `last` | `on_failure` runs | the step whose child run it is |\n|---|---|---|---|---|---|\n")
	for _, e := range ends {
		if e.OfRun {
			event := ""
			if e.Event != "" {
				event = "`" + e.Event + "`"
			}
			fmt.Fprintf(&b, "| %s | %d | %s | %s | %s | %s |\n", name(e.Status, e.Type), e.Exit, cmp.Or(event, "none"), yes(e.Accepted), yes(e.HandlesFailure), name(e.Step, e.StepType))
		}
	}
	return b.String()
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// TestEveryEndHasALine: of every status with every type of error.
func TestEveryEndHasALine(t *testing.T) {
	for _, typ := range []string{
		"", fault.Invalid, fault.User, fault.Infrastructure, fault.Preempted, fault.Timeout, fault.Gate, fault.Budget, fault.Canceled, fault.Lost, "runtimeError",
	} {
		for _, status := range []Status{StatusSucceeded, StatusFailed, StatusDeclined, StatusSkipped, StatusUpstream, StatusCanceled} {
			e, isEnd := EndOf(status, typ)
			if !isEnd || e.Status != status || e.Type != "" && e.Type != typ || e.Glyph == "" {
				t.Errorf("the end %s %q is %+v", status, typ, e)
			}
			if success := status == StatusSucceeded; e.Accepted != success || (e.Passed == StatusPending) != success || (e.Instance == CountPassed) != success ||
				(e.Event == EventSuccess) != success {
				t.Errorf("%s %q counts as a success, or a success does not: %+v", status, typ, e)
			}
		}
	}
	for _, status := range []Status{StatusPending, StatusRunning, StatusHold, ""} {
		if status.IsEnd() {
			t.Errorf("%q is no end", status)
		}
	}
	if e := EndOfRun(StatusSkipped, ""); e.Type != fault.TurnedAway || e.Exit != 0 || e.Accepted {
		t.Errorf("a run that was turned away: %+v", e)
	}
}
