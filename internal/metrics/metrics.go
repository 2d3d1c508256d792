// Package metrics reads what a training script appends to $SLUICE_METRICS: JSON objects, one a line. Python's json.dumps writes NaN and
// Infinity, which is no JSON, when a training diverges; they are read all the same.
package metrics

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"math"
	"strconv"
)

// MaxLine bounds a line, in bytes; longer ones are passed over.
const MaxLine = 64 << 10

// Line holds the numbers of a line by their names. What is no number is left out.
type Line map[string]float64

// Parse reads one line; ok is false when it is no JSON object.
func Parse(text []byte) (line Line, ok bool) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(Standard(text), &fields) != nil || fields == nil {
		return nil, false
	}
	line = Line{}
	for name, raw := range fields {
		var n Number
		if n.UnmarshalJSON(raw) == nil {
			line[name] = float64(n)
		}
	}
	return line, true
}

// Step is the training step that the line tells of, if it does.
func (l Line) Step() (step int64, ok bool) { return l.whole("step") }

// Of is how many steps make the whole training, if the line tells it.
func (l Line) Of() (steps int64, ok bool) {
	steps, ok = l.whole("of")
	return steps, ok && steps > 0
}

// Work is how long a rank worked on the step, in seconds, if the line tells it. That of a rank other than 0 tells nothing else.
func (l Line) Work() (rank int64, seconds float64, ok bool) {
	rank, ok = l.whole("rank")
	seconds = l["work_seconds"]
	return rank, seconds, ok && rank >= 0 && Number(seconds).Finite() && seconds > 0
}

// OfOtherRank reports whether the line is one of Work of a rank other than 0.
func (l Line) OfOtherRank() bool {
	rank, _, ok := l.Work()
	return ok && rank != 0
}

func (l Line) whole(name string) (n int64, ok bool) {
	const exact = 1 << 53 // what a float64 counts to
	v, ok := l[name]
	if !ok || !(math.Abs(v) < exact) {
		return 0, false
	}
	return int64(v), true
}

// Loss is that of the step, if the line tells it.
func (l Line) Loss() (loss Number, ok bool) {
	v, ok := l["loss"]
	return Number(v), ok
}

// Lines reads all lines to the end of r. A last line without an end counts when it is whole.
func Lines(r io.Reader) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		in := bufio.NewReaderSize(r, MaxLine)
		for long := false; ; {
			text, err := in.ReadSlice('\n')
			switch {
			case errors.Is(err, bufio.ErrBufferFull):
				long = true
				continue
			case err != nil && !errors.Is(err, io.EOF):
				yield(nil, err)
				return
			}
			if line, ok := Parse(text); ok && !long && !yield(line, nil) {
				return
			}
			if long = false; err != nil {
				return
			}
		}
	}
}

// notFinite are the numbers that JSON lacks, as Python and JavaScript write them.
var notFinite = map[string]float64{"NaN": math.NaN(), "Infinity": math.Inf(1), "-Infinity": math.Inf(-1)}

// Standard makes JSON of a line, with the numbers that JSON lacks in quotes. A line that is JSON stays as it is.
func Standard(text []byte) []byte {
	if json.Valid(text) {
		return text
	}
	out := make([]byte, 0, len(text)+2)
	for quoted := false; len(text) > 0; {
		n := 1
		switch {
		case quoted && text[0] == '\\' && len(text) > 1:
			n = 2
		case text[0] == '"':
			quoted = !quoted
		case !quoted:
			for token := range notFinite {
				if bytes.HasPrefix(text, []byte(token)) {
					out, n = strconv.AppendQuote(out, token), 0
					text = text[len(token):]
					break
				}
			}
		}
		out, text = append(out, text[:n]...), text[n:]
	}
	return out
}

// Number is one that may be no finite number, which JSON cannot say: such a one is written in quotes.
type Number float64

// String writes it as Python does.
func (n Number) String() string {
	v := float64(n)
	switch {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 1):
		return "Infinity"
	case math.IsInf(v, -1):
		return "-Infinity"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// Finite reports whether it is a finite number.
func (n Number) Finite() bool { return !math.IsNaN(float64(n)) && !math.IsInf(float64(n), 0) }

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) {
	if n.Finite() {
		return json.Marshal(float64(n))
	}
	return strconv.AppendQuote(nil, n.String()), nil
}

// UnmarshalJSON implements json.Unmarshaler. A number that is too large is infinite.
func (n *Number) UnmarshalJSON(raw []byte) error {
	if len(raw) > 1 && raw[0] == '"' {
		if v, ok := notFinite[string(raw[1:len(raw)-1])]; ok {
			*n = Number(v)
			return nil
		}
	}
	var number json.Number
	if len(raw) == 0 || raw[0] == '"' || string(raw) == "null" {
		return errors.New("not a number: " + string(raw))
	}
	if err := json.Unmarshal(raw, &number); err != nil {
		return err
	}
	v, err := number.Float64()
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return err
	}
	*n = Number(v)
	return nil
}
