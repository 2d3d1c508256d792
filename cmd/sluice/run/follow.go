package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/cmd/sluice/view"
	"github.com/sluiceml/sluice/connect"
	"github.com/sluiceml/sluice/connect/state/holder"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/report"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/worker"
)

const (
	// pollEvery spaces questions to a run; each costs its worker a little.
	pollEvery = time.Second
	// cancelTimeout bounds the call that cancels.
	cancelTimeout = 10 * time.Second
)

// follower shows a run until it ends, or until it is left.
type follower struct {
	session *control.Session
	worker  *worker.Worker // nil where another process carries the run
	sub     control.Submitted
	format  string
	out     io.Writer
	err     io.Writer
	theme   view.Theme
	began   time.Time

	live  *view.Live
	plain *view.Plain
	note  string
	over  bool // the run has ended
	// failDeclined: a declined run ends the process as a failed gate does.
	failDeclined bool
	asked        map[string]bool // the questions that a log has

	briefs map[string]string    // of steps that succeeded; poll's own, and
	mute   map[string]time.Time // since when trainings and rollouts have not answered
}

func newFollower(s *control.Session, w *worker.Worker, sub control.Submitted, format string, out, err io.Writer) *follower {
	f := &follower{session: s, worker: w, sub: sub, format: format, out: out, err: err, theme: view.ThemeOf(out), began: time.Now(), asked: map[string]bool{}, briefs: map[string]string{}, mute: map[string]time.Time{}}
	switch {
	case format == "json":
	case f.theme.Terminal:
		f.live = view.NewLive(out, f.theme, kit.TerminalSize(out))
	default:
		f.plain = view.NewPlain(out, f.began)
	}
	return f
}

// announce says first where the run can be looked at.
func (f *follower) announce() error {
	url := f.theme.Page(f.session.WorkflowURL(contract.RunWorkflowID(f.sub.Run), ""))
	if f.format == "json" {
		return view.Event(f.out, "started", map[string]any{"run": f.sub.Run, "pipeline": f.sub.Name, "resumed": f.sub.Resumed, "url": url, "workspace": f.sub.Workspace})
	}
	verb := "run"
	if f.sub.Resumed {
		verb = "resumed run"
	}
	if url != "" {
		if _, err := fmt.Fprintln(f.out, url); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprint(f.err, saysBeside(f.sub)+saysWithheld(f.sub.Workspace)); err != nil {
		return err
	}
	took := ""
	if w := f.sub.Workspace; w.Files > 0 {
		took = fmt.Sprintf("workspace: %s, %s\n", human.Plural(int64(w.Files), "file"), human.Bytes(w.Bytes))
	}
	_, err := fmt.Fprintf(f.out, "%s: %s %s\n%s\n", f.sub.Name, verb, f.sub.Run, took)
	return err
}

// fewWithheld is how many of the files that stayed out are named.
const fewWithheld = 5

// saysWithheld says which files did not go along.
func saysWithheld(w control.Snapshot) string {
	n := len(w.Withheld)
	if n == 0 {
		return ""
	}
	names := strings.Join(w.Withheld[:min(n, fewWithheld)], ", ")
	if n > fewWithheld {
		names += fmt.Sprintf(", and %d others", n-fewWithheld)
	}
	return fmt.Sprintf("sluice: excluded from the workspace, since they may hold secrets: %s\n  help: to include a file, add it to .sluiceignore, as in !%s\n", human.Line(names), human.Line(w.Withheld[0]))
}

// saysBeside says that another run of the pipeline is open, why this is not that run, and what to do about either.
func saysBeside(sub control.Submitted) string {
	if sub.Beside == "" {
		return ""
	}
	why := "it was started with other options"
	if len(sub.Differs) > 0 {
		why = view.Few(sub.Differs)
	}
	text := fmt.Sprintf("sluice: run %[1]s is still open, and this is a new run, because %[2]s\n"+
		"  help: both go on; `sluice cancel %[1]s` cancels the earlier one; to resume it with this command, undo what differs\n", sub.Beside, why)
	if slices.ContainsFunc(sub.Differs, func(s string) bool { return strings.HasSuffix(s, " is new") }) {
		text += "  help: list files that runs write to the folder, such as logs, in .sluiceignore\n"
	}
	return text
}

// follow shows the run until it ends and returns its end as an error, which has been shown. The first Ctrl-C cancels the run, a
// second does not wait for its end. Every other signal asks this process to end and not the run.
func (f *follower) follow(ctx context.Context, signals <-chan os.Signal) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan ending, 1)
	go func() {
		out, err := f.session.Wait(ctx, f.sub.Run)
		ended <- ending{out, err}
	}()
	polled, notes, lost := make(chan look), make(chan string), make(chan error, 1)
	go f.poll(ctx, polled, notes, lost)
	frames := time.Tick(kit.FrameEvery)

	var last look
	canceling := false
	for {
		var err error
		select {
		case end := <-ended:
			f.over = end.err == nil
			return f.finish(ctx, end)
		case err = <-f.worker.Failed():
			return fmt.Errorf("the worker has stopped: %w\nhelp: run the same command again to resume the run", err)
		case err = <-lost:
		case note := <-notes:
			err = f.say(note)
		case last = <-polled:
			err = f.show(last)
		case <-frames:
			if f.live != nil && last.rows != nil {
				err = f.show(last)
			}
		case sig := <-signals:
			if canceling || sig != os.Interrupt {
				return f.leave(canceling, sig)
			}
			canceling = true
			err = f.cancel(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// look is what a run looked like at one moment.
type look struct {
	rows    []view.Row
	waits   string // what the run waits for before it begins
	waiting []contract.ApprovalState
}

type ending struct {
	out record.RunOutput
	err error
}

// poll asks the run where it is, again and again. A question that fails is asked again, because a run does not depend on being
// watched, unless the process that was to answer is gone. Notes tell of long silences.
func (f *follower) poll(ctx context.Context, polled chan<- look, notes chan<- string, lost chan<- error) {
	silence := silence{heard: time.Now()}
	for range poll.Every(ctx, pollEvery) {
		state, err := f.session.State(ctx, f.sub.Run)
		note := silence.note(err == nil, time.Now())
		if err == nil {
			select {
			case polled <- f.look(ctx, state):
			case <-ctx.Done():
				return
			}
		} else if err := f.orphaned(); err != nil {
			lost <- err
			return
		}
		if note != "" && err != nil {
			if why := f.session.Unattended(ctx, contract.RunWorkflowID(f.sub.Run)); why != "" {
				note = "the run is waiting: " + why
			}
		}
		if note != "" {
			select {
			case notes <- note:
			case <-ctx.Done():
				return
			}
		}
	}
}

// errOrphaned says that the process which carried the run is gone. Of those that watch, one takes its place.
var errOrphaned = errors.New("the Sluice process that executed the run has exited")

// adopt continues to follow the run in a new session: that of the folder's next holder, which may be this process.
func (f *follower) adopt(s *control.Session, w *worker.Worker) error {
	f.session, f.worker = s, w
	where := "the process that holds the state folder now"
	if s.Holder != nil {
		where = "this process"
	}
	return f.say(errOrphaned.Error() + "; the run continues in " + where)
}

// orphaned is errOrphaned when the run was carried by another process of this folder, and that is gone. One that has taken its place at
// the same address needs no new session.
func (f *follower) orphaned() error {
	if f.session.Holder != nil || connect.ClusterNamed() {
		return nil
	}
	now, held, err := holder.Find(f.session.Dir)
	if err != nil || held && now.TemporalAddress == f.session.Info.TemporalAddress {
		return err
	}
	return errOrphaned
}

// look puts what running steps say of themselves, and what waits for a person, beside where they are.
func (f *follower) look(ctx context.Context, state contract.RunState) look {
	rows := make([]view.Row, len(state.Steps))
	held := false
	for i, step := range state.Steps {
		rows[i] = view.Row{StepState: step, Detail: view.Detail{Share: -1}}
		if step.Status == spec.StatusSucceeded {
			rows[i].Summary = f.brief(ctx, step)
		}
		held = held || step.Status == spec.StatusHold
		if step.Status != spec.StatusRunning {
			continue
		}
		d, err := f.session.Detail(ctx, f.sub.Run, step)
		if err != nil { // it has only just begun, or ended
			rows[i].Detail.Text = f.unattended(ctx, step, d)
			continue
		}
		delete(f.mute, step.ID)
		rows[i].Detail = DetailOf(step, d)
		held = held || d.Held
	}
	l := look{rows: rows, waits: state.Waits}
	if held {
		l.waiting, _ = f.session.Waiting(ctx, f.sub.Run, state) // it is asked again
	}
	for i := range rows {
		if rows[i].Status != spec.StatusHold {
			continue
		}
		asked := slices.IndexFunc(l.waiting, func(a contract.ApprovalState) bool { return a.Run == f.sub.Run && a.Step == rows[i].ID })
		if asked < 0 {
			rows[i].Status = spec.StatusRunning // nobody can answer yet: the question has only just begun to be asked
			continue
		}
		rows[i].Summary = l.waiting[asked].Question()
	}
	return l
}

// unattended says why a training or rollout that has not answered for long does not begin: another worker may have to be there for it.
func (f *follower) unattended(ctx context.Context, step contract.StepState, d control.Detail) string {
	if d.Train == nil && d.Rollout == nil {
		return ""
	}
	since, asked := f.mute[step.ID]
	if !asked {
		f.mute[step.ID] = time.Now()
	}
	if !asked || time.Since(since) < silenceLimit {
		return ""
	}
	return f.session.Unattended(ctx, step.Child)
}

// brief is what a step that succeeded handed on; until its record can be read, what the run says of it.
func (f *follower) brief(ctx context.Context, step contract.StepState) string {
	if _, known := f.briefs[step.ID]; !known {
		var rec record.StepRecord
		if f.session.Store.GetJSON(ctx, record.StepKey(f.sub.Run, step.ID), &rec) != nil {
			return step.Summary
		}
		f.briefs[step.ID] = report.Brief(rec)
		if rec.ReusedFrom != "" {
			f.briefs[step.ID] = strings.TrimPrefix(f.briefs[step.ID]+" · taken from "+rec.ReusedFrom, " · ")
		}
	}
	return cmp.Or(f.briefs[step.ID], step.Summary)
}

// DetailOf returns the detail of a step as it is shown.
func DetailOf(step contract.StepState, d control.Detail) view.Detail {
	switch {
	case step.Of > 0:
		instances := make([]view.Row, len(d.Instances))
		for i, one := range d.Instances {
			instances[i] = view.Row{StepState: one.StepState, Detail: DetailOf(one.StepState, one.Detail)}
		}
		return view.FanDetail(step, instances)
	case d.Child != nil:
		return view.ChildDetail(*d.Child)
	case d.Train != nil:
		return view.TrainDetail(step.Kind, *d.Train, d.TrainNodes).With(d.Text)
	case d.Rollout != nil:
		return view.RolloutDetail(*d.Rollout)
	}
	return view.Detail{Text: d.Text, Share: d.Share}
}

func (f *follower) show(l look) error {
	now := time.Now()
	switch {
	case f.live != nil:
		var notes []string
		if l.waits != "" {
			notes = append(notes, "waits: "+l.waits)
		}
		for _, a := range l.waiting {
			question, command := view.Question(a, now)
			notes = append(notes, question, "  "+command)
		}
		if f.note != "" {
			notes = append(notes, f.note)
		}
		return f.live.Show(l.rows, notes, now)
	case f.plain != nil:
		return errors.Join(f.plain.Waits(l.waits, now), f.plain.Show(l.rows, now), f.ask(l.waiting, now))
	}
	event := map[string]any{"run": f.sub.Run, "steps": l.rows}
	if l.waits != "" {
		event["waits"] = l.waits
	}
	if len(l.waiting) > 0 {
		event["waiting"] = l.waiting
	}
	return view.Event(f.out, "progress", event)
}

// asking tells one question from another.
func asking(a contract.ApprovalState) string { return fmt.Sprintf("%s/%s/%d", a.Run, a.Step, a.Check) }

// ask writes questions into a log, each once.
func (f *follower) ask(waiting []contract.ApprovalState, now time.Time) error {
	fresh := slices.DeleteFunc(slices.Clone(waiting), func(a contract.ApprovalState) bool { return f.asked[asking(a)] })
	for _, a := range fresh {
		f.asked[asking(a)] = true
	}
	return f.theme.Waiting(f.out, fresh, now)
}

// cancel asks the run to end and says what happens next.
func (f *follower) cancel(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, cancelTimeout)
	defer stop()
	if err := f.session.Cancel(ctx, f.sub.Run); err != nil {
		return err
	}
	return f.say("canceling: programs have a few seconds to exit; press Ctrl-C again to exit without waiting")
}

// say shows a line under the table, or in the log.
func (f *follower) say(note string) error {
	f.note = note
	if f.live != nil {
		return nil
	}
	_, err := fmt.Fprintln(f.err, "sluice: "+note)
	return err
}

// leave ends the process and not the run, with the code that a shell has for the signal.
func (f *follower) leave(canceling bool, sig os.Signal) error {
	what, where := "the run continues", "when Sluice is next started: `sluice run` with the same pipeline, or `sluice up`"
	if canceling {
		what = "the cancellation continues"
	}
	if f.session.Holder == nil {
		where = "in the process that holds the state folder; `sluice show` shows its progress"
	}
	if _, err := fmt.Fprintf(f.err, "sluice: left run %s: %s %s\n", f.sub.Run, what, where); err != nil {
		return err
	}
	return kit.ExitWith(kit.ExitSignal(sig))
}

// finish shows how the run ended: the summary, what is served, and last the status.
func (f *follower) finish(ctx context.Context, end ending) error {
	if end.err != nil {
		return end.err
	}
	run, err := record.LoadRun(ctx, f.session.Store, f.sub.Run)
	if err != nil {
		return err
	}
	code := kit.CodeOfRun(end.out)
	if f.failDeclined && end.out.Status == spec.StatusDeclined {
		code = kit.ExitGate
	}
	if f.format == "json" {
		err = view.Event(f.out, "ended", view.NewRecord(run.RunRecord, run.Steps, nil, time.Now()))
	} else {
		err = f.sum(run, end.out)
	}
	if err != nil || code == kit.ExitOK {
		return err
	}
	return kit.ExitWith(code)
}

// sum writes the summary in place of the table, or under the log.
func (f *follower) sum(run record.Run, end record.RunOutput) error {
	now := time.Now()
	var err error
	if f.live != nil {
		err = f.live.Clear()
	} else if err = f.plain.Show(view.Ended(run.Steps), now); err == nil {
		_, err = fmt.Fprintln(f.out)
	}
	if err == nil {
		err = f.theme.Summary(f.out, view.Summary{Graph: run.Graph, Steps: run.Steps}, now)
	}
	if err == nil {
		_, err = fmt.Fprintf(f.out, "\n%s", f.served())
	}
	if err != nil {
		return err
	}
	return f.theme.Ending(f.out, f.sub.Name, end)
}

// served says what the targets of this process serve, where it is the one that serves.
func (f *follower) served() string {
	if f.session.Holder == nil {
		return ""
	}
	return saysServed(f.worker.Targets(), f.worker.Serving(), f.worker.Troubles())
}

// saysServed says of each target which release of it is served, or why none is. A gateway that listens may have none to serve.
func saysServed(targets map[string]worker.Address, serving, troubles map[string]string) string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(targets)), maps.Keys(troubles))
	slices.Sort(all)
	var b strings.Builder
	for _, target := range slices.Compact(all) {
		release, trouble := serving[target], human.Line(troubles[target])
		switch {
		case release != "":
			fmt.Fprintf(&b, "%s of %s is served at %s until this process exits; use `sluice up` to keep serving it\n", release, target, targets[target].URL)
			if trouble != "" {
				fmt.Fprintf(&b, "%s is not fully served: %s\n", target, trouble)
			}
		case trouble != "":
			fmt.Fprintf(&b, "%s is not served: %s\n", target, trouble)
		default:
			fmt.Fprintf(&b, "%s is not served: none of its releases is loaded\n", target)
		}
	}
	return b.String()
}
