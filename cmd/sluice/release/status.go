package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	runs "github.com/sluiceml/sluice/cmd/sluice/run"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/report"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/store"
)

// status is where a target is, as `rollout status` shows it.
type status struct {
	Target   string            `json:"target"`
	Revision int64             `json:"revision"`
	Releases []routing.Release `json:"releases"`
	Shadow   *routing.Shadow   `json:"shadow,omitempty"`
	// Rollout is the running rollout; it is absent if there is none, or Unknown says why that is unknown.
	Rollout *control.Rollout `json:"rollout,omitempty"`
	Unknown string           `json:"unknown,omitempty"`
	// Last is how the newest rollout that has ended did.
	Last routing.Outcome `json:"last,omitzero"`
	// RolledBack is what a person has done to its result since.
	RolledBack *takenBack `json:"rolled_back,omitempty"`
}

// takenBack is a rollback after a rollout has ended.
type takenBack struct {
	// To is the release that has got the traffic, of the model of release Of if that was no longer loaded.
	To     string    `json:"to"`
	Of     string    `json:"of,omitempty"`
	At     time.Time `json:"at"`
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
}

// rolledBackSince returns the rollback after the rollout that ended last; nil if its result still serves, or a rollout runs.
func rolledBackSince(doc routing.Document, releases []routing.Past, last routing.Outcome) *takenBack {
	left := last.Version
	if last.Decision == routing.RolledBack {
		left = last.Previous
	}
	original := map[string]string{}
	for _, r := range releases {
		original[r.Version] = r.Original()
	}
	serving, ok := doc.Serving()
	if !ok || doc.Candidate != "" || left == "" || serving.Original() == original[left] {
		return nil
	}
	for _, r := range releases {
		if r.Version == serving.Version {
			return &takenBack{To: r.Version, Of: r.Of, At: r.Changed, By: r.By, Reason: r.Reason}
		}
	}
	return nil
}

func newRolloutStatus() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status [TARGET]",
		Short: "Show the stage of a target's rollout and the evidence of its tests",
		Long: `Show where the rollout of a target is: the stage, the share of traffic of each
release, what candidate and stable release have answered in the stage, the
evidence of each test with the limit at which the candidate is rolled back, the
checks that the stage still has to pass, and how long it may take. Without
TARGET, all targets are listed.`,
		Example: `  sluice rollout status
  sluice rollout status spam
  sluice rollout status spam --format json | jq .rollout.look`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeTargets,
	}
	format := kit.AddFormat(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := openStore(cmd)
		if err != nil {
			return err
		}
		targets := args
		if len(args) == 0 {
			targets, err = routing.Targets(cmd.Context(), s)
		} else {
			err = control.FindTarget(cmd.Context(), s, args[0])
		}
		if err != nil {
			return err
		}
		session, leave, carried, silent := runs.Attach(cmd)
		if session != nil {
			defer leave()
		}
		all := []status{}
		for _, target := range targets {
			st, err := statusOf(cmd.Context(), s, session, carried, target)
			if err != nil {
				return err
			}
			all = append(all, st)
		}
		if len(args) == 0 {
			return errors.Join(kit.Print(cmd, *format, all, func(out io.Writer) error { return statusesText(out, all) }), silent)
		}
		return errors.Join(kit.Print(cmd, *format, all[0], func(out io.Writer) error { return all[0].text(out, time.Now()) }), silent)
	}
	return cmd
}

func statusOf(ctx context.Context, s *store.Store, session *control.Session, carried bool, target string) (status, error) {
	doc, err := routing.Current(ctx, s, target)
	if err != nil {
		return status{}, err
	}
	releases, err := routing.Releases(ctx, s, target)
	if err != nil {
		return status{}, err
	}
	st := status{Target: target, Revision: doc.Revision, Releases: doc.Releases, Shadow: doc.Shadow}
	open := false
	for _, r := range releases { // newest first
		open = open || r.End.Decision == "" && r.State != routing.Gone
		if r.End.Decision != "" && r.Of == "" && st.Last.Decision == "" { // no rollout made what takes another back
			st.Last = r.End
		}
	}
	st.RolledBack = rolledBackSince(doc, releases, st.Last)
	if session != nil {
		if st.Rollout, err = session.Rollout(ctx, target); err != nil {
			st.Unknown = "Sluice does not answer: " + err.Error()
		}
		return st, nil
	}
	switch {
	case carried:
		st.Unknown = "Sluice does not answer"
	case open:
		st.Unknown = "no process executes the rollout now: start `sluice up`"
	}
	return st, nil
}

// statusesText lists targets.
func statusesText(out io.Writer, all []status) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(out, "nothing was ever released; a step of kind `rollout` releases a model to a target")
		return err
	}
	return kit.Table(out, "target\ttraffic\trollout", func(w io.Writer) {
		for _, s := range all {
			kit.Row(w, s.Target, s.traffic(), s.rollout())
		}
	})
}

// traffic says which releases have which share of the traffic.
func (s status) traffic() string {
	var parts []string
	for _, r := range s.Releases {
		if r.Weight > 0 {
			parts = append(parts, "release "+r.Version+" "+human.Percent(r.Weight))
		}
	}
	if s.Shadow != nil {
		parts = append(parts, "shadow to "+s.Shadow.Version+" "+human.Percent(s.Shadow.Share))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// rollout says in one line where the rollout is.
func (s status) rollout() string {
	r := s.Rollout
	switch {
	case s.Unknown != "":
		return s.Unknown
	case r == nil && s.Last.Decision == "":
		return "none"
	case r == nil:
		text := "none; release " + s.Last.Version + " " + outcomeText(s.Last) + " " + seconds(s.Last.At)
		if b := s.RolledBack; b != nil {
			text += "; later rolled back to release " + cmp.Or(b.Of, b.To)
			if b.Of != "" {
				text += " (loaded again as release " + b.To + ")"
			}
			text += " " + seconds(b.At)
		}
		return text
	}
	text := r.Phase
	if r.Phase == "stage" {
		text = fmt.Sprintf("stage %d of %d (%s)", r.Stage, r.Stages, report.StageText(r.Shadow, r.Weight))
	}
	if r.Paused != nil {
		text += ", paused"
	}
	return text
}

// text is all about a target, for people.
func (s status) text(out io.Writer, now time.Time) error {
	r := s.Rollout
	err := kit.Table(out, s.Target+"\t"+s.headline(), func(w io.Writer) {
		kit.Row(w, "traffic", s.traffic())
		if r == nil {
			reason := s.Last.Reason
			if b := s.RolledBack; b != nil {
				reason = byText(b.By, b.Reason)
			}
			if reason != "" {
				kit.Row(w, "reason", reason)
			}
			return
		}
		kit.Row(w, "run", r.Run+"/"+r.Step)
		if p := r.Paused; p != nil {
			text := "by " + p.By + " since " + kit.Time(p.At)
			if p.Reason != "" {
				text += ": " + p.Reason
			}
			kit.Row(w, "paused", text)
		}
		if r.Phase == "stage" {
			evidenceRows(w, *r, now)
		}
	})
	if err != nil || r == nil || r.Look == nil || r.Phase != "stage" {
		return err
	}
	fmt.Fprintln(out) //nolint:errcheck // the table has the error
	return kit.Table(out, "\tanswers\terrors\terror rate\tclient errors\tp50 ms\tp99 ms", func(w io.Writer) {
		sideRow(w, "candidate "+r.Version, r.Look.Candidate)
		if r.Previous != "" {
			sideRow(w, "stable "+r.Previous, r.Look.Stable)
		}
	})
}

func (s status) headline() string {
	if s.Rollout != nil && s.Rollout.Version != "" {
		return "release " + s.Rollout.Version + ", " + s.rollout()
	}
	return "rollout: " + s.rollout()
}

func sideRow(w io.Writer, name string, c spec.SideCounts) {
	kit.Row(w, name, human.Count(c.Requests), human.Count(c.Errors), human.Percent(c.ErrorRate), human.Count(c.ClientErrors), human.Number(c.P50MS), human.Number(c.P99MS))
}

// evidenceRows say what the looks of a stage have found, and what it still needs.
func evidenceRows(w io.Writer, r control.Rollout, now time.Time) {
	look := r.Look
	if look == nil {
		kit.Row(w, "looks", "none yet in this stage")
		return
	}
	switch {
	case r.Previous == "":
		kit.Row(w, "errors", "nothing else serves, so there is nothing to compare with")
	case look.Alpha > 0:
		kit.Row(w, "errors", fmt.Sprintf("e-value %s; rolls back at %s", human.Number(look.EValue), human.Number(1/look.Alpha)))
	}
	if l := look.Loss; l != nil {
		kit.Row(w, "loss", lossText(*l, look.Candidate, look.Stable))
	}
	if l := look.Latency; l != nil {
		kit.Row(w, "latency", latencyText(*l))
	} else if r.Shadow == 0 {
		kit.Row(w, "latency", "not tested (tests.latency is not set)")
	}
	if r.Shadow > 0 && look.Delta.Samples > 0 {
		kit.Row(w, "agreement", fmt.Sprintf("%s of %s answers, largest difference %s", human.Percent(look.Delta.Agreement),
			human.Count(look.Delta.Samples), human.Number(look.Delta.MaxAbs)))
	}
	stageRows(w, r, now)
}

func lossText(l spec.LossLook, candidate, stable spec.SideCounts) string {
	mean := func(loss *float64) string {
		if loss == nil {
			return "unknown"
		}
		return human.Number(*loss)
	}
	return fmt.Sprintf("mean %s, stable %s; e-value %s; rolls back at %s", mean(candidate.Loss), mean(stable.Loss), human.Number(l.EValue), human.Number(1/l.Alpha))
}

func latencyText(l spec.LatencyLook) string {
	name := "p" + human.Number(100*l.Quantile)
	stable := "not known yet"
	if l.StableUpperMS > 0 {
		stable = "at most " + human.Number(l.StableUpperMS) + " ms"
	}
	return fmt.Sprintf("%s at least %s ms, stable %s; rolls back above %s times", name, human.Number(l.CandidateLowerMS), stable, human.Number(l.Ratio))
}

// stageRows say what the stage needs to pass, and until when.
func stageRows(w io.Writer, r control.Rollout, now time.Time) {
	asks, look := r.Asks, r.Look
	if asks == nil {
		return
	}
	kit.Row(w, "samples", fmt.Sprintf("%s of %s %s", human.Count(look.Samples), human.Count(max(asks.MinSamples, look.Needed)), look.Counted))
	name := "checks"
	for _, check := range asks.Checks {
		kit.Row(w, name, string(check)+", when the stage has its samples")
		name = ""
	}
	for _, q := range asks.Queries {
		kit.Row(w, name, fmt.Sprintf("%s of %s, when the stage has its samples", q.Condition, human.Line(q.Query)))
		name = ""
	}
	began := fmt.Sprintf("began %s ago", human.Duration(now.Sub(r.Began).Round(time.Second)))
	if asks.Bake > 0 {
		began += fmt.Sprintf("; bakes for %s", asks.Bake)
	}
	if r.Paused != nil {
		began += "; its max_wait is suspended"
	} else if asks.MaxWait > 0 {
		then := "aborts"
		if asks.OnNoData == "hold" {
			then = "keeps waiting"
		}
		began += fmt.Sprintf("; %s after %s without enough samples", then, asks.MaxWait)
	}
	kit.Row(w, "stage", began)
	kit.Row(w, "last look", look.Reason)
	if !r.LookedAt.IsZero() {
		kit.Row(w, "next look", fmt.Sprintf("within a second; the last known is of %s ago", human.Duration(max(0, now.Sub(r.LookedAt)).Round(time.Second))))
	}
}
