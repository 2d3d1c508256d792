package look

import (
	"fmt"
	"io"
	"time"

	"github.com/sluiceml/sluice/cmd/sluice/view"
	"github.com/sluiceml/sluice/dsl/spec"
)

// logLine is a line that a program of a step has printed, or one that tells that a generation of a training ended, or begins.
type logLine struct {
	// Step is its ID, or that of one instance.
	Step string `json:"step"`
	// Log names the attempt, such as attempt-2, of a step that a worker executes.
	Log string `json:"log,omitempty"`
	// Generation, Node and Rank are those of a training. A launcher has no rank.
	Generation int  `json:"generation,omitempty"`
	Node       *int `json:"node,omitempty"`
	Rank       *int `json:"rank,omitempty"`
	// End is how the generation ended. Begins is set where it begins.
	End    spec.GenerationEnd `json:"end,omitempty"`
	Begins bool               `json:"begins,omitempty"`
	// At is when it was written, or when the generation ended.
	At   time.Time `json:"at,omitzero"`
	Text string    `json:"text"`

	shared bool // its generation has several ranks
}

// heading is what stands over lines of one program or generation.
func (l logLine) heading() string {
	if l.Log != "" {
		return l.Step + " " + l.Log
	}
	return fmt.Sprintf("%s generation %d", l.Step, l.Generation)
}

// whose says which rank has printed it, where that may be one of several.
func (l logLine) whose() string {
	switch {
	case !l.shared:
		return ""
	case l.Rank == nil:
		return fmt.Sprintf("g%d n%d | ", l.Generation, *l.Node)
	}
	return fmt.Sprintf("g%d n%d r%d | ", l.Generation, *l.Node, *l.Rank)
}

// line prints a line, under a heading when one with another came before.
func (l *logs) line(line logLine) error {
	l.printed = true
	if l.json {
		return view.JSONLine(l.out, line)
	}
	if heading := line.heading(); l.last != heading {
		if _, err := fmt.Fprintf(l.out, "==> %s <==\n", heading); err != nil {
			return err
		}
		l.last = heading
	}
	when := ""
	if l.timestamps {
		when = line.At.Local().Format(time.RFC3339) + " "
	}
	_, err := io.WriteString(l.out, when+line.whose()+line.Text+"\n")
	return err
}
