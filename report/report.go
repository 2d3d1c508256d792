// Package report writes one run as one HTML page: the graph with states and durations, the gates with the values they saw, what
// cleaning dropped and why, the loss curve with its interruptions, compile variants side by side and the looks of a rollout.
//
// The page is self-contained: no network, no script, charts as inline SVG. It follows the reader's light or dark setting and prints
// on paper. Write is pure: what it shows is handed to it.
package report

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/internal/layered"
	"github.com/sluiceml/sluice/internal/metrics"
	"github.com/sluiceml/sluice/store/record"
)

// Data is what a report is made of.
type Data struct {
	Run   record.RunRecord
	Steps []record.StepRecord
	// Curves are the loss curves of training steps, by step.
	Curves map[string][]Point
	// Instances are those of fanned-out steps, by step.
	Instances map[string]Instances
	// Waits is what the run waits for before it begins, and Waiting what people are asked now.
	Waits   string
	Waiting []Question
	// Note says what the report cannot know of a run that has not ended; empty for nothing.
	Note string
	// URL of the run in Temporal's UI; empty for none.
	URL string
	// Now is when the report is written; what is still running is shown up to then.
	Now time.Time
}

// Question is what people are asked, and the command that answers.
type Question struct{ Text, Command string }

// Instances are some of a step's, those that did not succeed first. Total is how many have ended.
type Instances struct {
	Records []record.StepRecord
	Total   int
}

// Point is one point of a loss curve.
type Point struct {
	Step       int64          `json:"step"`
	Loss       metrics.Number `json:"loss"`
	Generation int            `json:"generation"`
}

var (
	//go:embed page.html
	pageSource string
	//go:embed page.css
	pageStyle string

	page = template.Must(template.New("page").Funcs(template.FuncMap{
		"style":    func() template.CSS { return template.CSS(pageStyle) }, //nolint:gosec // our own constant
		"duration": human.Duration,
		"seconds":  human.Seconds,
		"bytes":    human.Bytes,
		"count":    human.Count,
		"number":   human.Number,
		"percent":  human.Percent,
		"files":    func(n int) string { return human.Plural(int64(n), "file") },
		"value":    human.Value,
		"line":     human.Line,
		"dollars":  func(usd float64) string { return fmt.Sprintf("$%.2f", usd) },
		"glyph":    Glyph,
		"word":     Word,
		"time":     func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
		"clock":    func(t time.Time) string { return t.UTC().Format("15:04:05") },
		"f":        layered.Coordinate,
		"endclass": endClass,
		"endword":  EndWord,
		"layers":   layers,
		"list":     func(names []string) string { return strings.Join(names, ", ") },
		"gpus":     gpuWords,
	}).Parse(pageSource))
)

// Write writes the report as HTML. The error is w's, or a fault of the page itself.
func Write(w io.Writer, d Data) error {
	if err := page.Execute(w, newDocument(d)); err != nil {
		return fmt.Errorf("write the report of %s: %w", d.Run.Run, err)
	}
	return nil
}

// document is the page as the template sees it.
type document struct {
	record.RunRecord
	Waits    string
	Waiting  []Question
	Note     string
	URL      string
	Now      time.Time
	Seconds  float64
	Params   []field
	Outputs  []field
	Graph    graph
	Timeline timeline
	Gates    []gate
	// Decisions are those of people.
	Decisions []decision
	Fans      []fan
	Sections  []section
	Failures  []failedStep
}

// field is a name with a value for people.
type field struct{ Name, Value string }

// gate is one evaluated check.
type gate struct {
	Step string
	spec.Check
	Saw []field
}

// AttemptEnd says how an attempt ended that did not succeed: by an error of a type, or with its worker.
func AttemptEnd(a record.Attempt) string {
	if a.Interrupted {
		return "interrupted"
	}
	return a.ErrorType
}

// Unsuccessful counts attempts that did not succeed, those that failed apart from those that ended with their worker.
func Unsuccessful(attempts []record.Attempt) string {
	interrupted := int64(0)
	for _, a := range attempts {
		if a.Interrupted {
			interrupted++
		}
	}
	var parts []string
	if failed := int64(len(attempts)) - interrupted; failed > 0 {
		parts = append(parts, human.Plural(failed, "failed attempt"))
	}
	if interrupted > 0 {
		parts = append(parts, human.Plural(interrupted, "interruption"))
	}
	return strings.Join(parts, " and ")
}

// failedStep is an attempt that did not succeed.
type failedStep struct {
	Step string
	record.Attempt
}

// End says how the attempt ended.
func (f failedStep) End() string { return AttemptEnd(f.Attempt) }

// section is a step told in detail; exactly one of the stories is set.
type section struct {
	record.StepRecord
	Seconds float64
	Clean   *cleanStory
	Train   *trainStory
	Compile *compileStory
	Rollout *rolloutStory
	Values  []field
}

func newDocument(d Data) document {
	doc := document{
		RunRecord: d.Run, Waits: d.Waits, Waiting: d.Waiting, Note: d.Note, URL: d.URL, Now: d.Now, Seconds: span(d.Run.StartedAt, d.Run.EndedAt, d.Now),
		Params: fields(d.Run.Params), Outputs: fields(d.Run.Outputs),
		Graph: newGraph(d), Timeline: newTimeline(d),
	}
	for _, s := range d.Steps {
		for _, c := range s.Checks {
			doc.Gates = append(doc.Gates, gate{Step: s.Step, Check: c, Saw: fields(c.Values)})
		}
		for _, d := range Decided(s) {
			doc.Decisions = append(doc.Decisions, decision{s.Step, d, fields(d.Fields)})
		}
		if s.Of > 0 {
			doc.Fans = append(doc.Fans, newFan(s, d.Instances[s.Step], d.Now))
			doc.Gates = append(doc.Gates, gatesOf(s.Step, d.Instances[s.Step].Records)...)
		}
		for _, a := range s.Attempts {
			doc.Failures = append(doc.Failures, failedStep{s.Step, a})
		}
		if s.Status == spec.StatusFailed && len(s.Attempts) == 0 && s.Verdict == "" {
			doc.Failures = append(doc.Failures, failedStep{s.Step, record.Attempt{
				StartedAt: s.StartedAt, EndedAt: s.EndedAt, ErrorType: s.ErrorType, Error: s.Error,
			}})
		}
		if story := newSection(d, s); story != nil {
			doc.Sections = append(doc.Sections, *story)
		}
	}
	return doc
}

// fewGates is how many gates of instances are listed.
const fewGates = 50

// gatesOf are those of a step's instances, which come with those that did not succeed first.
func gatesOf(step string, instances []record.StepRecord) []gate {
	var all []gate
	for _, r := range instances {
		for _, c := range r.Checks {
			all = append(all, gate{Step: step + "." + strconv.Itoa(r.Index), Check: c, Saw: fields(c.Values)})
		}
	}
	return all[:min(len(all), fewGates)]
}

// newSection tells what a step measured; nil when it measured nothing.
func newSection(d Data, s record.StepRecord) *section {
	if len(s.Outputs)+len(s.Account) == 0 || isList(s) {
		return nil
	}
	out := &section{StepRecord: s, Seconds: span(s.StartedAt, s.EndedAt, d.Now)}
	if len(s.Account) > 0 {
		out.Train = newTrainStory(s.Kind, decode[spec.TrainOutput](s.Account), nil)
	}
	if tell := kinds[s.Kind].tell; tell != nil && !tell(out, d) && out.Train == nil {
		return nil
	}
	return out
}

// tellValues tells the outputs that a step declared.
func (s *section) tellValues(Data) bool {
	s.Values = outputFields(s.Outputs, func(ref artifact.Ref) string { return string(ref.Type) + ", " + human.Bytes(ref.Bytes) })
	return len(s.Values) > 0
}

// tellNothing is for what is among the decisions.
func (*section) tellNothing(Data) bool { return false }

// fields lists a map for people, by name.
func fields[V any](m map[string]V) []field {
	all := make([]field, 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		all = append(all, field{name, human.Precise(m[name])})
	}
	return all
}

// span is the seconds from one time to another, or to now while it is not over.
func span(from, to, now time.Time) float64 {
	if from.IsZero() {
		return 0
	}
	if to.IsZero() {
		to = now
	}
	return max(0, to.Sub(from).Seconds())
}

// glyphs are the signs of what has not ended.
var glyphs = map[spec.Status]string{spec.StatusRunning: "●", spec.StatusHold: "◆", spec.StatusPending: "○"}

// Glyph is the sign of a status.
func Glyph(s spec.Status) string {
	end, _ := spec.EndOf(s, "")
	return cmp.Or(end.Glyph, glyphs[s], "?")
}

// Word is a status for people.
func Word(s spec.Status) string {
	if s == spec.StatusUpstream {
		return "not run"
	}
	return string(s)
}
