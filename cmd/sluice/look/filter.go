package look

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/exactjson"
	"github.com/sluiceml/sluice/store/record"
)

// runStatuses are those that a run can have.
var runStatuses = []string{
	string(spec.StatusRunning), string(spec.StatusSucceeded), string(spec.StatusFailed), string(spec.StatusDeclined),
	string(spec.StatusSkipped), string(spec.StatusCanceled),
}

// filter says which runs are listed.
type filter struct {
	pipelines, statuses, given []string
	since                      string
	limit                      int

	after  time.Time
	params map[string]string
}

// add gives a command the filter's flags.
func (f *filter) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.pipelines, "pipeline", nil, "runs of these pipelines")
	flags.StringSliceVar(&f.statuses, "status", nil, "runs with these statuses: "+strings.Join(runStatuses, ", "))
	flags.StringVar(&f.since, "since", "", "runs started since then: 90m, 24h, 7d, 2026-03-14 or 2026-03-14T15:04")
	flags.StringArrayVarP(&f.given, "param", "p", nil, "runs with this value of a parameter, name=value; may be repeated")
	flags.IntVar(&f.limit, "limit", 0, "maximum number of runs, newest first (default: all)")
	kit.Must(cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(runStatuses, cobra.ShellCompDirectiveNoFileComp)))
	kit.Must(cmd.RegisterFlagCompletionFunc("pipeline", kit.CompletePipelines))
}

// parse checks what the flags say.
func (f *filter) parse(cmd *cobra.Command, now time.Time) (err error) {
	for _, status := range f.statuses {
		if !slices.Contains(runStatuses, status) {
			return kit.UsageError(cmd, "--status must be one of "+strings.Join(runStatuses, ", ")+", not "+strconv.Quote(status))
		}
	}
	if f.limit < 0 {
		return kit.UsageError(cmd, "--limit must be a number of runs, not "+strconv.Itoa(f.limit))
	}
	if f.after, err = parseSince(f.since, now); err != nil {
		return kit.UsageError(cmd, "--since must be a time such as 90m, 24h, 7d, 2026-03-14 or 2026-03-14T15:04, not "+strconv.Quote(f.since))
	}
	f.params, err = kit.ParseParams(cmd, f.given)
	return err
}

// parseSince reads how long ago, or when; a time without a zone is local. Nothing is the zero time.
func parseSince(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return now.AddDate(0, 0, -int(n)), nil
		}
	}
	if ago, err := spec.ParseDuration(s); err == nil {
		return now.Add(-time.Duration(ago)), nil
	}
	for _, form := range []string{time.DateOnly, "2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if at, err := time.ParseInLocation(form, s, now.Location()); err == nil {
			return at, nil
		}
	}
	return time.Parse(time.RFC3339, s)
}

// apply returns those of the runs, newest first, that the filter lets through.
func (f *filter) apply(runs []record.RunRecord) []record.RunRecord {
	kept := slices.DeleteFunc(slices.Clone(runs), func(r record.RunRecord) bool { return !f.fits(r) })
	if f.limit > 0 && len(kept) > f.limit {
		return kept[:f.limit]
	}
	return kept
}

func (f *filter) fits(r record.RunRecord) bool {
	for name, want := range f.params {
		if got, ok := r.Params[name]; !ok || !written(got, want) {
			return false
		}
	}
	return (len(f.pipelines) == 0 || slices.Contains(f.pipelines, r.Pipeline)) &&
		(len(f.statuses) == 0 || slices.Contains(f.statuses, string(r.Status))) && !r.StartedAt.Before(f.after)
}

// written reports whether a parameter's value is what a person has written.
func written(value any, text string) bool {
	if s, ok := value.(string); ok {
		return s == text
	}
	meant, err := exactjson.Value([]byte(text))
	if err != nil {
		return false
	}
	is, err := json.Marshal(value) // which writes 1.0 as 1
	if err != nil {
		return false
	}
	want, err := json.Marshal(meant)
	return err == nil && bytes.Equal(is, want)
}
