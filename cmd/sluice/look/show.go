// Package look has the commands that inspect runs: list, show, logs, report and cost.
package look

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/activities/engine"
	"github.com/sluiceml/sluice/cmd/sluice/kit"
	runs "github.com/sluiceml/sluice/cmd/sluice/run"
	"github.com/sluiceml/sluice/cmd/sluice/view"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// How many of a step's instances are listed: for people, and for programs.
const (
	fewInstances = 50
	allInstances = 100_000
)

// NewShow makes `sluice show`.
func NewShow() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show [RUN] [STEP]",
		Short: "Show a run: its steps, gates and outputs",
		Long: `Show a run: its steps, gates with the values they evaluated, outputs, attempts
and their reasons, times and costs, who decided, and what is waiting for whom.
RUN is the name of a run, a prefix of one, or the name of a pipeline, which
stands for its newest run; without RUN the newest run is shown.

With STEP, only that step is shown, with its outputs and its instances, if any:
failed ones come first. STEP.3 is one instance. If the only argument names a
step of the newest run, that step is shown.

Records are read from the store: no other process needs to be running.`,
		Example: `  sluice show
  sluice show spam-filter
  sluice show spam-filter fit
  sluice show spam-filter fit.3
  sluice show --format json | jq .steps.fit.outputs.generations`,
		Args:              cobra.MaximumNArgs(2),
		ValidArgsFunction: kit.CompleteRunSteps,
	}
	format := kit.AddFormat(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, run, step, err := kit.FindStep(cmd, args)
		if err != nil {
			return err
		}
		l, err := refresh(cmd, &run)
		if err != nil {
			return err
		}
		if step != "" {
			return errors.Join(showStep(cmd, *format, s, run, step, l.doing), l.silent)
		}
		return errors.Join(showRun(cmd, *format, s, run, l), l.silent)
	}
	return cmd
}

// showRun shows a run, with what is known of it beside its records.
func showRun(cmd *cobra.Command, format string, s *store.Store, run record.Run, l live) error {
	for i := range run.Steps {
		if err := engine.NameChild(cmd.Context(), s, run.Run, run.Steps[i].Step, &run.Steps[i]); err != nil {
			return err
		}
	}
	out, now := cmd.OutOrStdout(), time.Now()
	if format == "json" {
		record := view.NewRecord(run.RunRecord, run.Steps, l.waiting, now)
		record.Waits, record.Unattended = l.waits, !l.carried
		return view.JSON(out, record)
	}
	steps := view.Summary{Graph: run.Graph, Steps: run.Steps, Doing: l.doing, Attempts: true, Waits: l.waits}
	err := view.ThemeOf(out).Show(out, run.RunRecord, steps, l.waiting, now)
	if note := l.note(); err == nil && note != "" {
		_, err = fmt.Fprintln(out, "\n"+note)
	}
	return err
}

// notAnswered says that the records are all there is to know of a run that has not ended.
const notAnswered = "the process that executes this run does not answer, so only what is recorded is shown. Steps shown as pending may have started"

// showStep shows a step, or an instance of one.
func showStep(cmd *cobra.Command, format string, s *store.Store, run record.Run, id string, doing map[string]view.Detail) error {
	limit := fewInstances
	if format == "json" {
		limit = allInstances
	}
	v, err := viewOf(cmd.Context(), s, run, id, limit)
	if err != nil {
		return err
	}
	v.Doing = doing[id]
	if v.Rejected, err = rejected(cmd.Context(), s, v.Step); err != nil {
		return err
	}
	now := time.Now()
	return kit.Print(cmd, format, view.NewStep(v, now), func(out io.Writer) error { return view.ThemeOf(out).Step(out, v, now) })
}

func viewOf(ctx context.Context, s *store.Store, run record.Run, id string, limit int) (view.StepView, error) {
	step, index := record.SplitStep(id)
	v := view.StepView{Run: run.RunRecord}
	for i, node := range run.Graph {
		if node.ID == step {
			v.Node, v.Step = node, run.Steps[i]
		}
	}
	var err error
	if index >= 0 {
		v.Step, err = record.LoadInstance(ctx, s, run.Run, step, index)
		v.Step.Step = id
		if err == nil && v.Step.Status == spec.StatusPending && v.Step.Kind == "" && run.Status != spec.StatusRunning {
			err = fault.Errorf(fault.Invalid, "step `%s` of %s has no instance %d", step, run.Run, index)
		}
		v.Step.Kind = cmp.Or(v.Step.Kind, v.Node.Kind)
		return v, errors.Join(err, engine.NameChild(ctx, s, run.Run, id, &v.Step))
	}
	if v.Node.Fan == spec.FanNone {
		return v, engine.NameChild(ctx, s, run.Run, id, &v.Step)
	}
	v.Instances, v.Total, err = record.LoadInstances(ctx, s, run.Run, step, limit)
	for i := range v.Instances {
		one := &v.Instances[i]
		err = errors.Join(err, engine.NameChild(ctx, s, run.Run, step+"."+strconv.Itoa(one.Index), one))
	}
	return v, err
}

// rejected reads the first rejected row of each reason out of the dead letter of a cleaning, unless that was removed.
func rejected(ctx context.Context, s *store.Store, step record.StepRecord) (map[string]string, error) {
	var out spec.CleanOutput
	if step.Kind != spec.KindClean || json.Unmarshal(step.Outputs, &out) != nil || out.DeadLetter.IsZero() {
		return nil, nil
	}
	list, err := s.Manifest(ctx, out.DeadLetter)
	i := slices.IndexFunc(list.Files, func(f artifact.File) bool { return f.Path == kit.RejectedFile })
	if i < 0 || err != nil {
		return nil, unlessMissing(err)
	}
	file, err := s.Blob(ctx, list.Files[i].Digest)
	if err != nil {
		return nil, unlessMissing(err)
	}
	defer file.Close()
	why, err := kit.ReadRejected(file, out.Reasons, "")
	return why.First, err
}

func unlessMissing(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// live is what is known of a run that is under way beside its records.
type live struct {
	doing   map[string]view.Detail
	waits   string // what for, before anything has begun
	waiting []contract.ApprovalState
	// carried is false when no Sluice is there to carry the run on: its record is then all there is to know.
	carried bool
	silent  error // it does not answer
}

// note says why the records are all there is to know; empty where they are not.
func (l live) note() string {
	switch {
	case l.silent != nil:
		return notAnswered
	case !l.carried:
		return runs.NotCarried
	}
	return ""
}

// refresh asks a run that is under way where its steps are now, what they do and what waits for a person. Of one that has ended meanwhile,
// or can never say so itself, it reads the records again. Of one that has ended its records say everything.
func refresh(cmd *cobra.Command, run *record.Run) (live, error) {
	if run.Status != spec.StatusRunning {
		return live{carried: true}, nil
	}
	s, leave, carried, silent := runs.Attach(cmd)
	if s == nil {
		return live{carried: carried, silent: silent}, nil
	}
	defer leave()
	ctx := cmd.Context()
	now, err := s.State(ctx, run.Run)
	if err != nil || now.Status != spec.StatusRunning {
		if _, err := s.CloseLost(ctx, run.Run); err != nil {
			return live{carried: true}, nil //nolint:nilerr // Temporal does not tell now
		}
		*run, err = record.LoadRun(ctx, s.Store, run.Run)
		return live{carried: true}, err
	}
	view.Overlay(run.Steps, now)
	l := live{doing: map[string]view.Detail{}, carried: true}
	for _, step := range now.Steps {
		if step.Status != spec.StatusRunning {
			continue
		}
		if d, err := s.Detail(ctx, run.Run, step); err == nil { // else it has only just begun, or ended
			l.doing[step.ID] = runs.DetailOf(step, d)
		}
	}
	l.waits = now.Waits
	l.waiting, _ = s.Waiting(ctx, run.Run, now) // a run that does not answer has ended meanwhile
	return l, nil
}
