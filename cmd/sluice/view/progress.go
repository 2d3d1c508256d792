package view

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/report"
	"github.com/sluiceml/sluice/training/gpu"
	"github.com/sluiceml/sluice/training/protocol"
)

// Row is a step as the live view shows it.
type Row struct {
	contract.StepState
	// Detail is what a running step says of itself.
	Detail Detail `json:"detail"`
}

// Detail is a running step's own account.
type Detail struct {
	// Text is one line. Where it has parts, the first changes seldom and is worth a line of a log.
	Text string `json:"text,omitempty"`
	// Share done, 0 to 1; negative when unknown.
	Share float64 `json:"share"`
}

// With is the detail with another part, which may be empty.
func (d Detail) With(part string) Detail {
	if part != "" {
		d.Text += separator + part
	}
	return d
}

// separator stands between the parts of a detail.
const separator = " · "

// TrainDetail describes a training step, or one of another kind on nodes of a pool, by what its nodes said last. Of steps and loss node 0 knows
// alone.
func TrainDetail(kind spec.Kind, state contract.TrainState, nodes []protocol.TrainProgress) Detail {
	parts := []string{fmt.Sprintf("generation %d", max(1, state.Generation))}
	if state.Phase != "" && state.Phase != "running" {
		parts[0] += " " + state.Phase
	}
	if n := len(state.Nodes); n > 0 {
		parts = append(parts, human.Plural(int64(n), "node"))
	}
	if n := len(state.Ended); n > 0 && starting(state.Phase) && state.Ended[n-1].Index < state.Generation {
		before := state.Ended[n-1]
		parts = append(parts, fmt.Sprintf("after generation %d ended: %s", before.Index, report.HowEnded(kind, before)))
	}
	d := Detail{Share: -1}
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(p protocol.TrainProgress) bool { return p.Generation != state.Generation })
	slices.SortFunc(nodes, func(a, b protocol.TrainProgress) int { return cmp.Compare(a.Node, b.Node) })
	if len(nodes) > 0 && nodes[0].Node == 0 && nodes[0].Step > 0 {
		p := nodes[0]
		step := "step " + human.Count(p.Step)
		if p.Of > 0 {
			step += "/" + human.Count(p.Of)
			d.Share = float64(p.Step) / float64(p.Of)
		}
		parts = append(parts, step)
		if p.StepsPerSecond > 0 { // else it has resumed and not made a step yet
			parts = append(parts, "loss "+human.Number(float64(p.Loss)), fmt.Sprintf("%.1f steps/s", p.StepsPerSecond))
		}
	}
	if len(nodes) > 0 && nodes[0].Doing != nil {
		parts, d.Share = append(parts, nodes[0].Doing.Text), nodes[0].Doing.Share
	}
	var readings []gpu.Reading
	var work []protocol.NodeWork
	for _, p := range nodes {
		work = append(work, protocol.NodeWork{Node: p.Node, Work: p.Work})
		readings = append(readings, p.GPUs...)
	}
	if len(readings) > 0 {
		parts = append(parts, gpuText(readings))
	}
	if slow := protocol.SlowNode(work); slow != "" {
		parts = append(parts, "slow: "+slow)
	}
	for _, text := range []string{
		warning("idle", nodes, func(p protocol.TrainProgress) string { return p.Idle }),
		warning("hangs", nodes, func(p protocol.TrainProgress) string { return p.Hang }),
		warning("not resumed", nodes, func(p protocol.TrainProgress) string { return p.Resumed.Failed() }),
		warning("checkpoints fail", nodes, func(p protocol.TrainProgress) string { return p.CommitError }),
		warning("at risk", nodes, func(p protocol.TrainProgress) string { return p.Risk }),
	} {
		if text != "" {
			parts = append(parts, text)
		}
	}
	d.Text = strings.Join(parts, separator)
	return d
}

// starting tells whether a generation is about to run. Then the end of the one before it is the reason; later it would be taken for the
// reason of what happens to this one.
func starting(phase string) bool {
	return phase == "sealing" || strings.HasPrefix(phase, "acquiring") || phase == "preparing" // "acquiring: no capacity"
}

// gpuText says what GPUs do, as far as it is known: how busy they are on average, the fullest, the hottest, and what slows any of them.
func gpuText(readings []gpu.Reading) string {
	var fullest gpu.Reading
	hottest := 0
	var slowed []string
	for _, g := range readings {
		if g.MemoryUsed >= fullest.MemoryUsed {
			fullest = g
		}
		hottest = max(hottest, g.Temperature)
		slowed = append(slowed, g.Throttled...)
	}
	var parts []string
	if busy, known := gpu.MeanUtilization(readings); known {
		parts = append(parts, fmt.Sprintf("%.0f%%", 100*busy))
	}
	if fullest.Memory > 0 {
		parts = append(parts, human.Memory(fullest.MemoryUsed)+" of "+human.Memory(fullest.Memory))
	}
	if hottest > 0 {
		parts = append(parts, fmt.Sprintf("%d °C", hottest))
	}
	if slices.Sort(slowed); len(slowed) > 0 {
		parts = append(parts, "slowed by "+strings.Join(slices.Compact(slowed), ", "))
	}
	name := "GPU"
	if n := len(readings); n > 1 {
		name = human.Plural(int64(n), "GPU")
	}
	return name + " " + strings.Join(parts, ", ")
}

// warning says what is wrong with nodes, for the first of which that is so.
func warning(what string, nodes []protocol.TrainProgress, of func(protocol.TrainProgress) string) string {
	var warned []protocol.TrainProgress
	for _, p := range nodes {
		if of(p) != "" {
			warned = append(warned, p)
		}
	}
	if len(warned) == 0 {
		return ""
	}
	text := what + ": "
	if len(nodes) > 1 {
		text += fmt.Sprintf("node %d: ", warned[0].Node)
	}
	text += of(warned[0])
	if more := len(warned) - 1; more > 0 {
		text += ", and so on " + human.Plural(int64(more), "other node")
	}
	return text
}

// ChildDetail describes a child pipeline.
func ChildDetail(state contract.RunState) Detail {
	done := 0
	var running []string
	for _, s := range state.Steps {
		switch {
		case !s.EndedAt.IsZero() || s.Status == spec.StatusSkipped:
			done++
		case s.Status == spec.StatusRunning || s.Status == spec.StatusHold:
			running = append(running, s.ID)
		}
	}
	if state.Waits != "" {
		return Detail{Text: "waiting: " + state.Waits, Share: -1}
	}
	d := Detail{Text: fmt.Sprintf("%d of %s", done, human.Plural(int64(len(state.Steps)), "step")), Share: -1}
	if len(running) > 0 {
		d.Text += separator + strings.Join(running, ", ")
	}
	return d
}

// FanDetail describes a fanned-out step: how many of its instances have ended, and what some of those that run say of themselves.
func FanDetail(step contract.StepState, instances []Row) Detail {
	d := Detail{Text: human.Count(int64(step.Done)) + " of " + human.Count(int64(step.Of)), Share: -1}
	if step.Of > 0 {
		d.Share = float64(step.Done) / float64(step.Of)
	}
	if step.Summary != "" {
		d.Text += separator + step.Summary
	}
	for _, r := range instances {
		said := r.Detail.Text
		if r.Status == spec.StatusHold {
			said = "waits"
		}
		d.Text += separator + strings.TrimSpace(r.ID+" "+human.Line(said))
	}
	return d
}

// RolloutDetail describes a rollout.
func RolloutDetail(state contract.RolloutState) Detail {
	if state.Phase != "stage" {
		return Detail{Text: state.Phase, Share: -1}
	}
	parts := []string{fmt.Sprintf("stage %d/%d %s", state.Stage, state.Stages, report.StageText(state.Shadow, state.Weight))}
	if state.Paused != nil {
		parts = append(parts, "paused by "+state.Paused.By)
	}
	if look := state.Look; look != nil {
		evidence := "e-value " + human.Number(look.EValue)
		switch {
		case look.Alpha > 0 && look.EValue < 1/look.Alpha:
			evidence += ", rolls back at " + human.Number(1/look.Alpha)
		case look.Alpha > 0 && look.Decision != "abort": // evidence of a difference, which is for the candidate
			evidence += ", in favour of the candidate"
		}
		parts = append(parts, human.Plural(max(look.Candidate.Requests, look.Delta.Samples), "answer"), evidence)
		if look.Reason != "" {
			parts = append(parts, look.Reason)
		}
	}
	return Detail{Text: strings.Join(parts, separator), Share: -1}
}

// spinner turns in front of running steps.
var spinner = []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")

// barWidth is how many characters a progress bar has.
const barWidth = 16

// Table draws the steps, one line each, at most width characters wide and height lines high. frame turns the spinner.
func (t Theme) Table(rows []Row, now time.Time, width, height, frame int) []string {
	shown, hidden := fit(rows, height)
	ids, kinds := 4, 4
	for _, r := range shown {
		ids, kinds = max(ids, len(r.ID)), max(kinds, len(r.Kind))
	}
	lines := make([]string, 0, len(shown)+1)
	for _, r := range shown {
		glyph, style := mark(r.Status)
		if r.Status == spec.StatusRunning && t.Terminal {
			glyph = string(spinner[frame%len(spinner)])
		}
		head := "  " + t.paint(style, glyph) + " "
		name := pad(r.ID, ids) + "  "
		if r.Status == spec.StatusRunning {
			name = t.paint(bold, name)
		}
		body := pad(string(r.Kind), kinds) + "  " + lead(spent(r.Status, r.StartedAt, r.EndedAt, now), 8) + "  "
		room := width - 4 - ids - 2 - kinds - 2 - 8 - 2
		lines = append(lines, strings.TrimRight(head+name+t.paint(faint, body)+t.account(r, room), " "))
	}
	if hidden > 0 {
		lines = append(lines, t.paint(faint, human.Cut(fmt.Sprintf("    and %s more", human.Plural(int64(hidden), "step")), width)))
	}
	return lines
}

// account is the last column: what a running step says, or how an ended one ended.
func (t Theme) account(r Row, room int) string {
	switch {
	case r.Status == spec.StatusPending:
		return ""
	case r.Status != spec.StatusRunning:
		_, style := mark(r.Status)
		if r.Status == spec.StatusSucceeded {
			style = ""
		}
		return t.paint(style, human.Cut(why(r.Status, r.Summary), room))
	}
	text := attempted(r)
	if r.Detail.Share < 0 || room < barWidth+20 {
		return human.Cut(text, room)
	}
	return t.bar(r.Detail.Share) + " " + human.Cut(text, room-barWidth-1)
}

// attempted is what a running step says of itself, after which attempt it is where that is not the first, and why the one before failed.
func attempted(r Row) string {
	text := human.Line(r.Detail.Text)
	if r.Attempt < 2 {
		return text
	}
	attempt := fmt.Sprintf("attempt %d", r.Attempt)
	if r.Before != "" {
		attempt += " after: " + human.Cut(human.Line(r.Before), mostBefore)
	}
	return strings.TrimSuffix(attempt+separator+text, separator)
}

// mostBefore is how many characters of the failure of an attempt are shown beside what the next one does.
const mostBefore = 80

func (t Theme) bar(share float64) string {
	full := int(min(max(share, 0), 1)*barWidth + 0.5)
	return t.paint(cyan, strings.Repeat("━", full)) + t.paint(faint, strings.Repeat("─", barWidth-full))
}

// fit chooses the steps that are shown where not all have room: those that run or failed first, then the newest ended, then the
// next to come; always in graph order.
func fit(rows []Row, height int) (shown []Row, hidden int) {
	if len(rows) <= height {
		return rows, 0
	}
	height = max(1, height-1)
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	rank := func(i int) int {
		switch rows[i].Status {
		case spec.StatusRunning, spec.StatusHold:
			return 0
		case spec.StatusFailed, spec.StatusDeclined, spec.StatusCanceled:
			return 1
		case spec.StatusSucceeded:
			return 2
		default:
			return 3
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if rank(a) == 2 && rank(b) == 2 {
			return rows[b].EndedAt.Compare(rows[a].EndedAt)
		}
		return rank(a) - rank(b)
	})
	chosen := order[:height]
	slices.Sort(chosen)
	for _, i := range chosen {
		shown = append(shown, rows[i])
	}
	return shown, len(rows) - height
}

// spent is how long a step or run has taken; empty for what has not begun, or never did.
func spent(status spec.Status, from, to, now time.Time) string {
	if from.IsZero() || status.IsIdle() {
		return ""
	}
	if to.IsZero() {
		to = now
	}
	return human.Duration(to.Sub(from))
}

// Live draws the table over itself on a terminal.
type Live struct {
	w      io.Writer
	theme  Theme
	size   func() (width, height int)
	frame  int
	height int                // lines drawn last, to be drawn over
	shares map[string]float64 // how far steps were: a training between two generations does not say so
}

// NewLive makes a live table on a terminal whose size is asked for at every frame.
func NewLive(w io.Writer, theme Theme, size func() (width, height int)) *Live {
	return &Live{w: w, theme: theme, size: size, shares: map[string]float64{}}
}

// Show draws rows and notes, lines under the table, over what was drawn before. A terminal that knows synchronised updates (DEC
// private mode 2026) shows each frame whole.
func (l *Live) Show(rows []Row, notes []string, now time.Time) error {
	width, height := l.size()
	rows = slices.Clone(rows)
	for i, r := range rows {
		if was, known := l.shares[r.ID]; known && r.Detail.Share < 0 {
			rows[i].Detail.Share = was
		}
		l.shares[r.ID] = rows[i].Detail.Share
	}
	notes = notes[:max(0, min(len(notes), height/2))]
	lines := l.theme.Table(rows, now, width-1, height-2-max(1, len(notes)), l.frame)
	for i, note := range notes {
		if i == 0 {
			lines = append(lines, "")
		}
		lines = append(lines, l.theme.paint(yellow, human.Cut(note, width-1)))
	}
	l.frame++
	var b strings.Builder
	b.WriteString("\x1b[?2026h\x1b[?25l")
	if l.height > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", l.height)
	}
	for _, line := range lines {
		b.WriteString("\r" + line + "\x1b[K\n")
	}
	b.WriteString("\x1b[J\x1b[?25h\x1b[?2026l")
	l.height = len(lines)
	_, err := io.WriteString(l.w, b.String())
	return err
}

// Clear takes the table off the terminal.
func (l *Live) Clear() error {
	if l.height == 0 {
		return nil
	}
	_, err := fmt.Fprintf(l.w, "\x1b[%dA\r\x1b[J", l.height)
	l.height = 0
	return err
}

// detailEvery spaces the lines of a plain log about one step that only counts on.
const detailEvery = 10 * time.Second

// Plain writes a line for every change, for logs and pipes.
type Plain struct {
	w     io.Writer
	began time.Time
	seen  map[string]seen
	waits string
}

type seen struct {
	status  spec.Status
	attempt int
	head    string
	at      time.Time
}

// NewPlain makes a plain log of a run that began at began.
func NewPlain(w io.Writer, began time.Time) *Plain {
	return &Plain{w: w, began: began, seen: map[string]seen{}}
}

// Waits writes what the run waits for before it begins, once.
func (p *Plain) Waits(what string, now time.Time) error {
	if what == p.waits {
		return nil
	}
	w := writer{w: p.w}
	if p.waits = what; what != "" {
		w.line(fmt.Sprintf("%8s  waiting: %s", human.Duration(now.Sub(p.began)), human.Line(what)))
	}
	return w.err
}

// Show writes what has changed since the last call: a status at once, a detail when its first part changes, else every ten seconds.
func (p *Plain) Show(rows []Row, now time.Time) error {
	w := writer{w: p.w}
	for _, r := range rows {
		was := p.seen[r.ID]
		head, _, parts := strings.Cut(r.Detail.Text, separator)
		if !parts {
			head = "" // a program's own words
		}
		is := seen{status: r.Status, attempt: r.Attempt, head: head, at: now}
		if r.Status == spec.StatusPending {
			continue
		}
		text := human.Line(r.Detail.Text)
		switch running := r.Status == spec.StatusRunning; {
		case !running:
			text = why(r.Status, r.Summary)
			if is.status == was.status {
				continue
			}
		case is.status == was.status && is.attempt == was.attempt && (text == "" || head == was.head && now.Sub(was.at) < detailEvery):
			continue
		}
		p.seen[r.ID] = is
		if r.Status == spec.StatusRunning {
			text = attempted(r)
		}
		if took := spent(r.Status, r.StartedAt, r.EndedAt, now); r.Status != spec.StatusRunning && took != "" {
			text = strings.TrimSuffix(took+separator+text, separator)
		}
		line := fmt.Sprintf("%8s  %s %s", human.Duration(now.Sub(p.began)), r.ID, report.Word(r.Status))
		if text != "" {
			line += ": " + text
		}
		w.line(line)
	}
	return w.err
}
