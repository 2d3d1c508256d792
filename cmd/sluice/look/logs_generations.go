package look

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/sluiceml/sluice/activities/contract"
	runs "github.com/sluiceml/sluice/cmd/sluice/run"
	"github.com/sluiceml/sluice/cmd/sluice/view"
	"github.com/sluiceml/sluice/connect"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/report"
	"github.com/sluiceml/sluice/store/record"
)

// generations are those of a training, or of an instance of one.
type generations struct {
	of    spec.Node // the step
	ended []spec.Generation
	// lives is the number of the one that lives, as far as that is known.
	lives int
}

// generations returns those of a training: by its record once it has ended, and until then by what its workflow says, which is only asked
// anew where ask is true.
func (l *logs) generations(ctx context.Context, place int, step string, ask bool) (generations, error) {
	of, node := l.run.Steps[place], l.run.Graph[place]
	if id, index := record.SplitStep(step); index >= 0 {
		var err error
		if of, err = record.LoadInstance(ctx, l.store, l.run.Run, id, index); err != nil {
			return generations{}, err
		}
	}
	var out spec.TrainOutput
	if json.Unmarshal(of.Trained(), &out) == nil {
		return generations{of: node, ended: out.Generations}, nil
	}
	if !l.running() || of.Status.IsEnd() {
		return generations{}, nil
	}
	if ask {
		l.asker.ask(ctx, l.run.Run, step)
	}
	state := l.asker.states[step]
	return generations{of: node, ended: state.Ended, lives: state.Generation}, nil
}

// ended says of the selected generations up to one how they ended, where another had to go on for them or nothing did, and that the next
// begins, if that is the one that lives.
func (l *logs) ended(step string, all generations, upTo int) error {
	for _, g := range all.ended {
		if g.Index <= l.told[step] || g.Index > upTo {
			continue
		}
		l.told[step] = g.Index
		if g.End == spec.EndFinished || !l.selectsGeneration(g.Index) {
			continue
		}
		how, ended := report.HowEnded(all.of.Kind, g), "ended"
		if !all.of.OnPool || g.ToStep > 0 { // else it reports none
			ended += " at step " + human.Count(g.ToStep)
		}
		if err := l.tell(logLine{Step: step, Generation: g.Index, End: g.End, At: g.EndedAt, Text: ended + ": " + how},
			fmt.Sprintf("%s on %s: %s", ended, g.EndedAt.Local().Format("2006-01-02 15:04:05 MST"), how)); err != nil {
			return err
		}
	}
	next := all.lives
	if next < 2 || l.told[step] != next-1 || l.begun[step] == next || !l.selectsGeneration(next) {
		return nil
	}
	l.begun[step] = next
	return l.tell(logLine{Step: step, Generation: next, Begins: true, Text: "begins"}, "begins")
}

// tell prints what became of a generation: text between the lines of ranks, or line to a program.
func (l *logs) tell(line logLine, text string) error {
	if l.json {
		return view.JSONLine(l.out, line)
	}
	l.last = ""
	_, err := fmt.Fprintf(l.out, "==> %s: generation %d %s <==\n", line.Step, line.Generation, text)
	return err
}

const (
	// askTimeout bounds a question to the workflow of a training, since the output of its ranks waits for the answer, and askPause is how long
	// nobody is asked after one without an answer.
	askTimeout = 3 * time.Second
	askPause   = 10 * time.Second
	// asksPerLook is how many instances are asked at a time: each question costs the worker a little.
	asksPerLook = 4
)

// asker asks the workflows of trainings where they are.
type asker struct {
	stateDir string
	session  *control.Session // nil: none is open
	leave    func()
	rest     time.Time // nobody is asked before
	looks    int
	states   map[string]contract.TrainState // what each said last, by the step or instance
}

// isDue reports whether it is the turn of one of some instances.
func (a *asker) isDue(i, of int) bool {
	return (i-a.looks*asksPerLook%of+of)%of < asksPerLook
}

func (a *asker) ask(ctx context.Context, run, step string) {
	if time.Now().Before(a.rest) {
		return
	}
	if a.session == nil {
		a.session, a.leave, _, _ = runs.AttachTo(ctx, control.Options{StateDir: a.stateDir, Patience: askTimeout})
	}
	if a.session == nil {
		a.rest = time.Now().Add(askPause)
		return
	}
	asking, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	state, err := a.session.Training(asking, run, step)
	switch {
	case err == nil:
		a.states[step] = state
	case !connect.IsNotFound(err): // it has not begun
		a.close()
		a.rest = time.Now().Add(askPause)
	}
}

func (a *asker) close() {
	if a.session != nil {
		a.leave()
		a.session, a.leave = nil, nil
	}
}
