package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/metrics"
	"github.com/sluiceml/sluice/store/record"
)

func load(t *testing.T, name string) Data {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var d Data
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func render(t *testing.T, d Data) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, d); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// text is what a reader of the page sees, less its style.
func text(t *testing.T, page string) string {
	t.Helper()
	z, b := html.NewTokenizer(strings.NewReader(page)), strings.Builder{}
	hidden := false
	for {
		switch z.Next() {
		case html.ErrorToken:
			return strings.Join(strings.Fields(b.String()), " ")
		case html.StartTagToken, html.EndTagToken:
			tok := z.Token()
			if tok.Data == "style" {
				hidden = tok.Type == html.StartTagToken
			}
			b.WriteByte(' ')
		case html.TextToken:
			if !hidden {
				b.WriteString(html.UnescapeString(string(z.Raw())))
			}
		}
	}
}

func TestWrite(t *testing.T) {
	for _, c := range []struct {
		record string
		want   []string
	}{
		{"promoted", []string{
			"spam-filter ✓ succeeded", "1m 57s", "epochs 4", "min_f1 0.95",
			"mails > 5000", "mails = 6,046", "rows.kept = 5,689", "not better than the model that serves",
			"6,046 read 5,689 kept", "318 dropped by a rule", "39 rejected", "same_body 291", "schema: text is longer than 100000 31",
			"email 812", "how far they have moved", "added folder", "len 1,830.5 31 1,204 14,200 4,120 0 0.312 0.021 0.114",
			"folder 7.25 4 8 12 5 3 easy-ham-1", "Compared with sha256:b4b4",
			"spot notice", "node lost, 21 steps lost", "steps 520", "steps repeated 21", "node 0 was killed",
			"int8 selected", "588 kB", "0.9996", "the measure",
			"promoted", "shadow 100%", "99.1%", "0.22", "taken back at 100",
			"the worker that ran the step went away", "infrastructure", "published dataset spam-mail",
		}},
		{"rolledback", []string{"✗ failed", "failed (gate)", "rolled back", "e-value 214", "fail, stop", "in Temporal"}},
		{"failed", []string{"failed (user)", "No module named 'torch' <script>alert(1)</script>", "not evaluated"}},
	} {
		t.Run(c.record, func(t *testing.T) {
			got := text(t, render(t, load(t, c.record)))
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("the page does not say %q", want)
				}
			}
			if t.Failed() {
				t.Log(got)
			}
		})
	}
}

// The page must work without a network and run nothing, whatever a run's records say.
func TestSelfContained(t *testing.T) {
	for _, record := range []string{"promoted", "rolledback", "failed"} {
		doc, err := html.Parse(strings.NewReader(render(t, load(t, record))))
		if err != nil {
			t.Fatal(err)
		}
		for n := range doc.Descendants() {
			if slices.Contains([]string{"script", "link", "img", "iframe", "object", "base"}, n.Data) && n.Type == html.ElementNode {
				t.Errorf("%s: element <%s>", record, n.Data)
			}
			for _, a := range n.Attr {
				if strings.HasPrefix(a.Key, "on") || a.Key == "src" || strings.Contains(a.Val, "ZgotmplZ") {
					t.Errorf("%s: attribute %s=%q of <%s>", record, a.Key, a.Val, n.Data)
				}
			}
		}
	}
}

// What a gate would have said is told apart from what it said.
func TestGateMessages(t *testing.T) {
	const message = "too few mails"
	for verdict, want := range map[spec.Verdict]bool{spec.VerdictPass: true, spec.VerdictFail: false, spec.VerdictError: false} {
		d := Data{Run: record.RunRecord{Pipeline: "p"}, Steps: []record.StepRecord{{
			Step: "mail", Checks: []spec.Check{{Expression: "mails > 5000", Message: message, Verdict: verdict, OnFail: spec.OnFailFail}},
		}}}
		got := text(t, render(t, d))
		if !strings.Contains(got, message) || strings.Contains(got, "else: "+message) != want {
			t.Errorf("of a gate whose verdict is %s the page says %q; want \"else:\": %v", verdict, got, want)
		}
	}
}

// A telephone is 400 pixels wide. There a table must scroll, be of bars, which shrink, or have its cells below one another.
func TestNarrowPage(t *testing.T) {
	const width = 400
	page := render(t, load(t, "promoted"))
	narrow := map[string]string{} // declarations by selector
	for _, block := range regexp.MustCompile(`(?s)@media \(max-width: (\d+)px\) \{(.*?)\n\}`).FindAllStringSubmatch(page, -1) {
		if at, err := strconv.Atoi(block[1]); err != nil || at < width {
			continue
		}
		for _, rule := range regexp.MustCompile(`(\S[^{}\n]*) \{ ([^{}]*) \}`).FindAllStringSubmatch(block[2], -1) {
			narrow[rule[1]] += rule[2]
		}
	}
	for selector, want := range map[string]string{".stacked thead": "display: none;", ".stacked tr": "display: block;", ".stacked td": "display: block;"} {
		if !strings.Contains(narrow[selector], want) {
			t.Errorf("at %d px, %s has the style %q, want %q", width, selector, narrow[selector], want)
		}
	}
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	class := func(n *html.Node) string {
		for _, a := range n.Attr {
			if a.Key == "class" {
				return a.Val
			}
		}
		return ""
	}
	stacked := 0
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode || n.Data != "table" {
			continue
		}
		switch {
		case class(n) == "stacked":
			stacked++
		case class(n) != "bars" && class(n.Parent) != "scroll":
			t.Errorf("a table of the class %q does not fit %d px: nothing scrolls it", class(n), width)
		}
	}
	if stacked == 0 {
		t.Error("the page has no table whose cells stand below one another")
	}
}

func TestWriteEmpty(t *testing.T) {
	got := text(t, render(t, Data{Run: record.RunRecord{Pipeline: "p", Status: spec.StatusRunning}}))
	if !strings.Contains(got, "p ● running") {
		t.Error(got)
	}
}

// Records may come from another version, or be odd: the page is written all the same, and what it draws stays on it.
func TestOddRecords(t *testing.T) {
	d := load(t, "promoted")
	for i := range d.Steps {
		d.Steps[i].Outputs = json.RawMessage(`{"rows":"many","stages":[{"seconds":1,"looks":[{"e_value":0}]}],"generations":[{}]}`)
	}
	d.Curves["fit"] = []Point{{Step: 1, Loss: metrics.Number(math.Inf(1))}, {Step: 2, Loss: metrics.Number(math.NaN())}, {Step: 3, Loss: 1}, {Step: 3, Loss: 1}}
	if page := render(t, d); strings.Contains(page, "NaN") || strings.Contains(page, "Inf") {
		t.Error("the page holds numbers that cannot be drawn")
	}
}

func TestGraphHasRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := drawGraph(t)
		g := newGraph(Data{Run: record.RunRecord{Graph: nodes}})
		if len(g.Nodes) != len(nodes) {
			t.Fatalf("%d of %d nodes", len(g.Nodes), len(nodes))
		}
		at := map[string]xy{}
		for i, a := range g.Nodes {
			at[a.Step] = a.xy
			if a.X < 0 || a.Y < 0 || a.X+graphStyle.NodeWidth > g.Width || a.Y+graphStyle.NodeHeight > g.Height {
				t.Fatalf("%s is outside", a.Step)
			}
			for _, b := range g.Nodes[:i] {
				if math.Abs(a.X-b.X) < graphStyle.NodeWidth && math.Abs(a.Y-b.Y) < graphStyle.NodeHeight {
					t.Fatalf("%s covers %s", a.Step, b.Step)
				}
			}
		}
		for _, n := range nodes {
			for _, need := range n.After {
				if at[need].X >= at[n.ID].X {
					t.Fatalf("%s is not left of %s", need, n.ID)
				}
			}
		}
	})
}

func drawGraph(t *rapid.T) []spec.Node {
	nodes := make([]spec.Node, rapid.IntRange(1, 12).Draw(t, "steps"))
	for i := range nodes {
		nodes[i].ID = fmt.Sprint("s", i)
		for j := range i {
			if rapid.IntRange(0, 3).Draw(t, "edge") == 0 {
				nodes[i].After = append(nodes[i].After, nodes[j].ID)
			}
		}
	}
	return nodes
}

// The timeline is as wide as the page, on a phone too: what it shows lies between 0 and 100 percent, and nothing has to be scrolled to.
func TestTimelineFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
		length := rapid.Float64Range(0.1, 1e6).Draw(t, "length")
		after := func(share float64) time.Time { return noon.Add(time.Duration(share * length * float64(time.Second))) }
		from := rapid.Float64Range(0, 1).Draw(t, "from")
		line := newTimeline(Data{
			Run: record.RunRecord{StartedAt: noon, EndedAt: after(1)},
			Steps: []record.StepRecord{{
				Step: "s", Kind: spec.KindRun, Status: spec.StatusSucceeded, StartedAt: after(from), EndedAt: after(rapid.Float64Range(from, 1).Draw(t, "to")),
			}},
		})
		if b := line.Rows[0].Bars[0]; b.X < 0 || b.Width < 0 || b.X+b.Width > 100+1e-6 {
			t.Fatalf("from %v%%, %v%% wide", b.X, b.Width)
		}
		if last := line.Ticks[len(line.Ticks)-1]; last.At > 100+1e-6 || line.TickStep <= 0 {
			t.Fatalf("the last tick is at %v%%, each %v%%", last.At, line.TickStep)
		}
	})
	page := render(t, load(t, "failed"))
	if at := strings.Index(page, `<div class="timeline"`); at < 0 || strings.HasSuffix(strings.TrimSpace(page[:at]), `<div class="scroll">`) {
		t.Error("the timeline is scrolled")
	}
	if all := text(t, page); !strings.Contains(all, "✗ fit 4.3 s") {
		t.Errorf("the timeline does not name the step that failed:\n%s", all)
	}
}

func TestTicks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := rapid.Float64Range(0, 1e6).Draw(t, "low")
		s := scale{low: low, high: low + rapid.Float64Range(1e-3+low/1e3, 1e6).Draw(t, "span"), from: 10, to: 900}
		ticks := s.ticks(8)
		if len(ticks) > 10 {
			t.Fatalf("%d ticks", len(ticks))
		}
		for i, k := range ticks {
			if k.At < s.from-1e-6 || k.At > s.to+1e-6 || i > 0 && k.At <= ticks[i-1].At {
				t.Fatalf("ticks %v", ticks)
			}
		}
	})
	log := scale{low: 0.1, high: 1000, to: 4, log: true}
	var labels []string
	for _, k := range log.ticks(5) {
		labels = append(labels, k.Label)
	}
	if got := strings.Join(labels, " "); got != "0.1 1 10 100 1,000" {
		t.Errorf("decades %s", got)
	}
}

// A dataset that is reused is compared with itself, which says nothing.
func TestDatasetComparedWithItself(t *testing.T) {
	out := spec.CleanOutput{Dataset: artifact.Ref{Digest: "sha256:a3"}, Profile: spec.Profile{Columns: map[string]spec.ColumnProfile{"len": {Distinct: 2}}}}
	out.Drift = &spec.Drift{Against: "sha256:b4", Columns: map[string]spec.ColumnDrift{"len": {}}}
	if p := newCleanStory(out).Profile; p.Against != "sha256:b4" || p.Columns[0].PSI != "0.000" {
		t.Errorf("compared with an earlier one: %+v", p)
	}
	out.Drift.Against = out.Dataset.Digest
	if p := newCleanStory(out).Profile; p.Against != "" || p.Columns[0].PSI != "" {
		t.Errorf("compared with itself: %+v", p)
	}
}

// Of few points there is no average, and the chart has one line.
func TestCurveOfFewPoints(t *testing.T) {
	d := load(t, "promoted")
	for step, points := range d.Curves {
		d.Curves[step] = points[:min(len(points), 12)]
	}
	page := render(t, d)
	if got := text(t, page); strings.Contains(got, "Thin: as reported") || !strings.Contains(got, "No step is drawn twice.") {
		t.Error("the page describes two lines")
	}
	if strings.Contains(page, `class="raw"`) || !strings.Contains(page, `class="smooth"`) {
		t.Error("the chart does not have one line")
	}
}
