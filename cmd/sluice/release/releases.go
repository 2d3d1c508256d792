// Package release has the commands for the releases of targets: release and rollout.
package release

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/store"
)

// NewRelease makes `sluice release`.
func NewRelease() *cobra.Command {
	return kit.Group(&cobra.Command{
		Use:   "release",
		Short: "List the releases of targets",
		Long: `A release is a model at a target. Each ` + "`rollout`" + ` step makes one; releases are
numbered by target.`,
		Example: `  sluice release ls spam`,
	}, newReleaseList())
}

// openStore opens the store for a command on targets.
func openStore(cmd *cobra.Command) (*store.Store, error) { return kit.OpenStoreOf(cmd, "releases") }

// openTarget opens the store and demands that the target of the first argument had releases.
func openTarget(cmd *cobra.Command, target string) (*store.Store, error) {
	s, err := openStore(cmd)
	if err != nil {
		return nil, err
	}
	return s, control.FindTarget(cmd.Context(), s, target)
}

// completeTargets offers the targets that had releases, for a first argument.
func completeTargets(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	const done = cobra.ShellCompDirectiveNoFileComp
	if len(args) > 0 {
		return nil, done
	}
	s, err := kit.OpenStore(cmd)
	if err != nil {
		return nil, done
	}
	targets, err := routing.Targets(cmd.Context(), s)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, t := range targets {
		if strings.HasPrefix(t, prefix) {
			names = append(names, t)
		}
	}
	return names, done
}

// listedRelease is a release as `release ls` shows it.
type listedRelease struct {
	Release string        `json:"release"`
	Weight  float64       `json:"weight"`
	State   routing.State `json:"state"`
	Model   artifact.Ref  `json:"model"`
	Run     string        `json:"run"`
	Step    string        `json:"step"`
	Added   time.Time     `json:"added"`
	// Changed is when its traffic, or its state, last changed: By whom, for Reason.
	Changed time.Time       `json:"changed"`
	By      string          `json:"by,omitempty"`
	Reason  string          `json:"reason,omitempty"`
	Rollout routing.Outcome `json:"rollout,omitzero"`
}

func newReleaseList() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls TARGET",
		Aliases: []string{"list"},
		Short:   "List all releases that a target ever had, newest first",
		Long: `List all releases that a target ever had, newest first: the share of traffic,
the state (serving, shadow, loaded or removed), how the rollout ended, when the
state last changed, and the step that made the release. --format json also says
by whom and why. The list shows what the gateways of the target should serve; if
no gateway is running, a line says so.

A loaded release has no traffic, but can take it over immediately. A removed one
comes back as a new release by ` + "`sluice rollout rollback`" + `.`,
		Example: `  sluice release ls spam
  sluice release ls spam --format json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeTargets,
	}
	format := kit.AddFormat(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := openTarget(cmd, args[0])
		if err != nil {
			return err
		}
		releases, err := routing.Releases(cmd.Context(), s, args[0])
		if err != nil {
			return err
		}
		listed := make([]listedRelease, len(releases))
		for i, r := range releases {
			listed[i] = listedRelease{
				Release: r.Version, Weight: r.Weight, State: r.State, Model: r.Model, Run: r.Run, Step: r.Step, Added: r.Added,
				Changed: r.Changed, By: r.By, Reason: r.Reason, Rollout: r.End,
			}
		}
		gateways, err := routing.ListReports(cmd.Context(), s, args[0])
		if err != nil {
			return err
		}
		return kit.Print(cmd, *format, listed, func(out io.Writer) error {
			err := releasesText(out, listed)
			if err == nil && !slices.ContainsFunc(gateways, func(g routing.Report) bool { return !g.Closed }) {
				_, err = fmt.Fprintf(out, "no gateway is running: start one with `sluice up`, or with `sluice serve %s -e ENVIRONMENT`\n", args[0])
			}
			return err
		})
	}
	return cmd
}

func releasesText(out io.Writer, listed []listedRelease) error {
	return kit.Table(out, "release\ttraffic\tstate\tmodel\trollout\tsince\tmade by", func(w io.Writer) {
		for _, r := range listed {
			kit.Row(w, r.Release, human.Percent(r.Weight), string(r.State), shortDigest(r.Model.Digest), outcomeText(r.Rollout), seconds(r.Changed), r.Run+"/"+r.Step)
		}
	})
}

// outcomeText says how a rollout ended.
func outcomeText(o routing.Outcome) string {
	if o.Decision == "" {
		return "running"
	}
	return strings.ReplaceAll(o.Decision, "_", " ")
}

// digits is how much of a digest stands for a model where it is shown.
const digits = 8

func shortDigest(digest string) string {
	hex := strings.TrimPrefix(digest, "sha256:")
	return hex[:min(digits, len(hex))]
}

// seconds is kit.Time with seconds, by which the changes of a rollout follow each other.
func seconds(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05 MST") }

func newRolloutHistory() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "history TARGET",
		Short: "Show every change of a target's traffic, newest first",
		Long: `Show every change of a target's traffic, newest first: the revisions of its
routing document, what each changed, and by which step or which person.`,
		Example: `  sluice rollout history spam
  sluice rollout history spam -n 0 --format json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeTargets,
	}
	format := kit.AddFormat(cmd)
	most := cmd.Flags().IntP("limit", "n", 20, "how many changes to show; 0 for all")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := openTarget(cmd, args[0])
		if err != nil {
			return err
		}
		revisions, err := routing.Revisions(cmd.Context(), s, args[0])
		if err != nil {
			return err
		}
		changes := changesOf(revisions)
		if *most > 0 && len(changes) > *most {
			changes = changes[:*most]
		}
		return kit.Print(cmd, *format, changes, func(out io.Writer) error {
			return kit.Table(out, "revision\twhen\tchange\tby", func(w io.Writer) {
				for _, c := range changes {
					kit.Row(w, fmt.Sprint(c.Revision), seconds(c.At), c.Change, byText(c.By, c.Reason))
				}
			})
		})
	}
	return cmd
}

// byText says who did something and why; the reason of an order names the person itself.
func byText(by, reason string) string {
	switch {
	case reason == "":
		return by
	case by == "" || strings.Contains(reason, " by "+by):
		return reason
	}
	return by + ": " + reason
}

// change is a revision as `rollout history` shows it.
type change struct {
	Revision int64     `json:"revision"`
	At       time.Time `json:"at"`
	// Change says what differs from the revision before.
	Change   string            `json:"change"`
	By       string            `json:"by,omitempty"`
	Reason   string            `json:"reason,omitempty"`
	Releases []routing.Release `json:"releases"`
	Shadow   *routing.Shadow   `json:"shadow,omitempty"`
}

// changesOf says what each revision changed, newest first.
func changesOf(revisions []routing.Document) []change {
	changes := make([]change, len(revisions))
	var before routing.Document
	for i, doc := range revisions {
		changes[len(revisions)-1-i] = change{
			Revision: doc.Revision, At: doc.UpdatedAt, Change: changeText(before, doc), By: doc.By, Reason: doc.Reason, Releases: doc.Releases, Shadow: doc.Shadow,
		}
		before = doc
	}
	return changes
}

func changeText(before, doc routing.Document) string {
	var parts []string
	for _, r := range doc.Releases {
		switch was, had := before.Release(r.Version); {
		case r.Weight != was.Weight:
			parts = append(parts, fmt.Sprintf("%s gets %s", r.Version, human.Percent(r.Weight)))
		case !had:
			parts = append(parts, "load "+r.Version)
		}
	}
	for _, r := range before.Releases {
		if _, has := doc.Release(r.Version); !has {
			parts = append(parts, "remove "+r.Version)
		}
	}
	switch s := doc.Shadow; {
	case s != nil && (before.Shadow == nil || *before.Shadow != *s):
		parts = append(parts, fmt.Sprintf("mirror %s to %s", human.Percent(s.Share), s.Version))
	case s == nil && before.Shadow != nil:
		parts = append(parts, "end the shadow of "+before.Shadow.Version)
	}
	if front := frontText(before.Front, doc.Front); front != "" {
		parts = append(parts, front)
	}
	switch {
	case len(parts) > 0:
		return strings.Join(parts, ", ")
	case before.Candidate != "" && doc.Candidate == "":
		return "end the rollout of " + before.Candidate
	case before.Front == nil && doc.Front != nil:
		return "set who may call it, and where"
	}
	return "no change"
}

// frontText says what is another than before in where a target listens and whom it lets in; of the first, nothing.
func frontText(before, front *spec.Front) string {
	var parts []string
	switch {
	case before == nil || front == nil || before.Is(*front):
		return ""
	case front.URL != before.URL:
		parts = append(parts, "url "+cmp.Or(front.URL, "none"))
	case front.Port != before.Port:
		parts = append(parts, fmt.Sprintf("port %d", front.Port))
	}
	was := *before
	was.Port, was.URL = front.Port, front.URL
	if !was.Is(*front) {
		parts = append(parts, "another gateway configuration")
	}
	return strings.Join(parts, ", ")
}
