package program

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/sluiceml/sluice/pipelines/rows"
)

// The window: how many rows, and how many bytes of them, a program may have unanswered. It always gets at least one row. The number of rows
// is large, so that even answers of a few bytes fill the program's output buffer.
const (
	maxRows  = 4096
	maxBytes = 1 << 20
)

// Feed sends rows to one process at a time and receives their answers. It is not safe for concurrent use.
type Feed struct {
	pool *Pool
	proc *process // nil if there is none at present

	queue  []*item         // to send
	flight map[int64]*item // sent to proc, by number
	bytes  int             // in flight
	since  time.Time       // start of the silence: the last answer, or the first row in flight
}

// item is a row that has no answer yet.
type item struct {
	number int64 // in the process that has it or gets it next
	line   []byte
	text   []byte
	done   func(Answer) error
	// suspects is how many rows, including this one, a process had when it died; 0 if none died with this row.
	suspects int
}

// Feed returns a new feed. The caller must close it.
func (p *Pool) Feed() *Feed { return &Feed{pool: p, flight: map[int64]*item{}} }

// Send sends a row, a JSON object without line breaks and without the field _row, to the program. done is called with the answer, from
// within this or a later call of Send or Flush. If done returns an error, that call returns it.
func (f *Feed) Send(ctx context.Context, text []byte, done func(Answer) error) error {
	f.queue = append(f.queue, &item{text: text, done: done})
	for len(f.queue) > 0 {
		if err := f.step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Flush waits until every row has its answer.
func (f *Feed) Flush(ctx context.Context) error {
	for len(f.queue)+len(f.flight) > 0 || f.proc != nil && f.proc.ended() {
		if err := f.step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Close returns the process to the pool, or kills it if it still has rows.
func (f *Feed) Close() {
	switch {
	case f.proc == nil:
	case len(f.flight) > 0 || f.proc.ended():
		f.proc.discard()
	default:
		f.pool.giveBack(f.proc)
	}
	f.proc = nil
}

// step sends a row, receives an answer, or ends the input after a silence.
func (f *Feed) step(ctx context.Context) (err error) {
	if f.proc == nil {
		if f.proc, err = f.pool.take(); err != nil {
			return err
		}
	}
	var in chan<- []byte
	var line []byte
	if f.room() {
		in, line = f.proc.in, f.queue[0].lineOf(f.proc.sent+1)
	}
	quiet, stop := f.quiet(in != nil)
	defer stop()
	select {
	case in <- line:
		f.sent()
	case answer, ok := <-f.proc.out:
		if !ok {
			return f.over()
		}
		return f.answer(answer)
	case <-quiet:
		f.hush()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// quiet returns a channel that fires when hush is due.
func (f *Feed) quiet(sends bool) (<-chan time.Time, func() bool) {
	var wait time.Duration
	switch {
	case sends, f.proc.ended() && len(f.flight) > 0:
		return nil, func() bool { return false }
	case f.proc.ended():
		wait = time.Until(f.proc.endedAt.Add(stopGrace))
	default:
		wait = time.Until(f.since.Add(f.pool.patience(len(f.queue) == 0 || f.company() > 0)))
	}
	timer := time.NewTimer(wait)
	return timer.C, timer.Stop
}

// hush ends the input of a silent process, or kills one that does not exit after the end of its input.
func (f *Feed) hush() {
	if f.proc.ended() {
		f.proc.cut()
	} else {
		f.proc.endInput()
	}
}

// room reports whether the program may be given the next row.
func (f *Feed) room() bool {
	switch {
	case len(f.queue) == 0 || f.proc.ended():
		return false
	case len(f.flight) == 0:
		return true
	}
	if most := f.company(); most > 0 {
		return len(f.flight) < most && f.pool.company(f.queue[0].suspects) == most
	}
	return len(f.flight) < maxRows && f.bytes+len(f.queue[0].text) <= maxBytes
}

// company returns how many rows may be in flight together with the current ones, or with the next one if there are none; 0 means no limit,
// because none of them is a suspect.
func (f *Feed) company() int {
	for _, it := range f.flight {
		return f.pool.company(it.suspects)
	}
	if len(f.queue) == 0 {
		return 0
	}
	return f.pool.company(f.queue[0].suspects)
}

// sent records that the first row of the queue was passed to the program.
func (f *Feed) sent() {
	it := f.queue[0]
	f.queue = f.queue[1:]
	f.proc.sent++
	it.line = nil
	if len(f.flight) == 0 {
		f.since = time.Now()
	}
	f.flight[it.number] = it
	f.bytes += len(it.text)
}

// lineOf returns the row as a line with the given number.
func (it *item) lineOf(n int64) []byte {
	if it.line != nil && it.number == n {
		return it.line
	}
	line := make([]byte, 0, len(it.text)+32)
	line = append(line, `{"_row":`...)
	line = strconv.AppendInt(line, n, 10)
	if len(it.text) > 2 { // more than {}
		line = append(line, ',')
	}
	line = append(line, it.text[1:]...)
	it.number, it.line = n, append(line, '\n')
	return it.line
}

// answer passes an answer to its row.
func (f *Feed) answer(line []byte) error {
	object, err := rows.Decode(line)
	if object == nil {
		return f.pool.spec.fault("the program wrote something to stdout that is not a JSON object (%s): %s; write everything but answers to stderr", err, show(line))
	}
	given, answers := object["_row"]
	number, ok := whole(given)
	switch {
	case !answers:
		return f.pool.spec.fault("the program wrote an answer without `_row`: %s", show(line))
	case !ok:
		return f.pool.spec.fault("the `_row` of an answer must be the integer that its row has: %s", show(line))
	}
	it, ok := f.flight[number]
	if !ok {
		return f.pool.spec.fault("the program answered row %d, which it was not given or has already answered: %s", number, show(line))
	}
	answer, wrong := read(object)
	if wrong != nil {
		return f.pool.spec.fault("%s: %s", wrong, show(line))
	}
	if why, unfit := errors.AsType[*rows.Rejection](err); unfit && answer.Row != nil {
		answer = Answer{Reject: why.Reason, Message: "the answer of the program: " + why.Message}
	}
	if word := answer.Drop + answer.Reject; word != "" && !f.pool.knows(word) {
		return f.pool.spec.fault("the program has more than %d different rules and reasons, which rows are counted by: %s", maxWords, show(line))
	}
	delete(f.flight, number)
	f.bytes -= len(it.text)
	f.proc.answered++
	f.spoke()
	return it.done(answer)
}

// spoke records an answer after a silence.
func (f *Feed) spoke() {
	now := time.Now()
	sinceEnd := time.Duration(-1)
	if f.proc.ended() {
		sinceEnd = now.Sub(f.proc.endedAt)
	}
	f.pool.spoke(now.Sub(f.since), sinceEnd)
	f.since = now
}

// whole returns an integer, which JSON may write with a fraction of zero.
func whole(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case float64:
		return int64(v), v == float64(int64(v))
	}
	return 0, false
}

// word matches valid names of rules and reasons, which are used as the names of counts.
var word = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)

func read(object rows.Row) (a Answer, err error) {
	delete(object, "_row")
	drop, drops := object["_drop"]
	reject, rejects := object["_reject"]
	switch {
	case drops && rejects:
		return a, fmt.Errorf("an answer may have `_drop` or `_reject`, but not both")
	case drops:
		a.Drop, err = name("_drop", drop)
	case rejects:
		a.Reject, err = name("_reject", reject)
		a.Message = "the program rejected the row"
	default:
		a.Row = object
	}
	return a, err
}

func name(key string, v any) (string, error) {
	text, ok := v.(string)
	if !ok || !word.MatchString(text) {
		return "", fmt.Errorf("%s must consist of letters, digits, - and _, because rows are counted by it", key)
	}
	return text, nil
}

// over handles the end of a process: it answers or requeues the rows that the process left unanswered.
func (f *Feed) over() error {
	p, ended := f.proc, f.proc.ended()
	f.proc = nil
	if !ended {
		p.endInput()
	}
	left := sortedFlight(f.flight)
	clear(f.flight)
	f.bytes = 0
	switch {
	case p.fault != nil:
		return p.fault
	case f.pool.ctx.Err() != nil:
		return context.Cause(f.pool.ctx)
	case ended && len(left) == 0:
		return f.pool.lastExit(p)
	case ended && p.exit.OK():
		for _, it := range left {
			if err := it.done(Answer{Reject: NoAnswer, Message: "the program read all rows and exited without an answer to this one"}); err != nil {
				return err
			}
		}
		return nil
	case p.exit.OK() && p.answered > 0: // it exited successfully and expects to be restarted
		f.queue = append(left, f.queue...)
		return nil
	}
	if err := f.pool.died(p.exit); err != nil {
		return err
	}
	if len(left) == 1 && left[0].suspects > 0 {
		return left[0].done(crash(p))
	}
	for _, it := range left {
		it.suspects = len(left)
	}
	f.queue = append(left, f.queue...)
	return nil
}

// crash returns the answer for a row with which the program died twice, the second time alone.
func crash(p *process) Answer {
	if p.exit.OK() {
		return Answer{Reject: NoAnswer, Message: "the program exited without an answer when given only this row"}
	}
	return Answer{Reject: Crashed, Message: "the program exited with " + p.exit.String() + " when given only this row"}
}
