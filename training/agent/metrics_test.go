package agent

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/internal/metrics"
)

func followed(t testing.TB, resumed string, from int64) (*follower, *os.File) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "metrics.jsonl")
	if err := os.WriteFile(path, []byte(resumed), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".before", []byte(resumed), 0o600); err != nil {
		t.Fatal(err)
	}
	m := follow(path, path+".before", from)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return m, f
}

func TestMetricsAreFollowed(t *testing.T) {
	m, f := followed(t, `{"step":5,"of":50,"loss":9}`+"\n", 5)
	m.read(false)
	if got := m.state(); m.made() != 0 || got.Step != 5 || got.Of != 50 || got.Loss != 9 {
		t.Fatalf("before the first line: %d steps, %+v, want the state of the line that was resumed", m.made(), got)
	}
	for _, tt := range []struct {
		write string
		step  int64
		loss  metrics.Number
	}{
		{`{"step":6,"loss":0.5}` + "\n", 6, 0.5},
		{`{"step":7,"loss":0.2`, 6, 0.5}, // half a line
		{"5}\n", 7, 0.25},
		{"no JSON\n\n[1]\n" + `{"loss":3}` + "\n", 7, 0.25},
		{`{"step":7,"f1":0.9}` + "\n", 7, 0.25}, // a metric between two steps
		{strings.Repeat("x", 3*metrics.MaxLine) + "\n" + `{"step":8,"loss":0.1}` + "\n", 8, 0.1},
		{`{"step":8}` + "\n" + `{"step":12,"loss":0.05}` + "\n", 12, 0.05},
	} {
		if _, err := f.WriteString(tt.write); err != nil {
			t.Fatal(err)
		}
		m.read(false)
		got := m.state()
		if m.made() != tt.step-5 || got.Step != tt.step || got.Loss != tt.loss || got.Of != 50 {
			t.Errorf("after %.40q: %d steps made, %+v, want step %d, loss %v of 50", tt.write, m.made(), got, tt.step, tt.loss)
		}
		if got.FirstStep != 6 || got.FirstAt.IsZero() || got.At.Before(got.FirstAt) {
			t.Errorf("after %.40q: the first step is %d at %v, and the last at %v; want step 6, and it first", tt.write, got.FirstStep, got.FirstAt, got.At)
		}
	}
}

// What a line says beside numbers is passed over, and so is a NaN, as Python's json.dumps writes it: the step was made all the same.
func TestMetricsKeepWhatIsANumber(t *testing.T) {
	m, f := followed(t, "", 0)
	all := `{"step":1,"loss":2,"phase":"eval","ok":true,"lrs":[0.1],"none":null}` + "\n" +
		`{"step":2,"loss":NaN,"note":"a NaN, -Infinity"}` + "\n" + `{"step":3,"loss":-Infinity}` + "\n"
	fmt.Fprint(f, all)
	m.read(false)
	if got := m.state(); got.Step != 3 || !math.IsInf(float64(got.Loss), -1) {
		t.Errorf("%+v, want step 3 with a loss of -Inf", got)
	}
	last := `{"f1":0.5}` // of no step, and without an end: the program wrote it last
	fmt.Fprint(f, `{"step":4,"loss":1e999}`+"\n"+last)
	m.read(true)
	if got := m.state(); got.Step != 4 || !math.IsInf(float64(got.Loss), 1) {
		t.Errorf("%+v, want step 4 with a loss of +Inf", got)
	}
	for step, want := range map[int64]string{3: all, 4: all + `{"step":4,"loss":1e999}` + "\n" + last + "\n"} {
		if got := linesUpTo(t, m, step); got != want {
			t.Errorf("up to step %d: %q, want %q", step, got, want)
		}
	}
	if len(m.spacing) == 0 {
		t.Error("a training whose loss is no number looks as if it stood still")
	}
}

func linesUpTo(t *testing.T, m *follower, step int64) string {
	t.Helper()
	r, err := m.upTo(step)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

func TestMetricsUpToAStep(t *testing.T) {
	m, f := followed(t, "", 0)
	for step := range 5 {
		fmt.Fprintf(f, "{\"step\":%d,\"loss\":%d}\n", step+1, step)
	}
	fmt.Fprint(f, "noise\n{\"step\":3,\"f1\":1}\n"+strings.Repeat("x", 2*metrics.MaxLine)+"{\"step\":1}\n{\"step\":2")
	got := linesUpTo(t, m, 3)
	want := "{\"step\":1,\"loss\":0}\n{\"step\":2,\"loss\":1}\n{\"step\":3,\"loss\":2}\n{\"step\":3,\"f1\":1}\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics up to step 3 (-want +got):\n%s", diff)
	}
}

// The rate is that of the last steps while these go on, and falls with the time since the last one when none comes.
func TestRateFalls(t *testing.T) {
	for _, tt := range []struct {
		silent   time.Duration
		min, max float64
	}{{0, 4, 4}, {300 * time.Millisecond, 4, 4}, {10 * time.Second, 0.1, 0.2}, {time.Hour, 0, 0.001}} {
		m := &follower{now: metricsState{Rate: 4}, stepAt: time.Now().Add(-tt.silent)}
		if got := m.state().Rate; got < tt.min || got > tt.max {
			t.Errorf("%v after the last step: %g steps a second, want %g to %g", tt.silent, got, tt.min, tt.max)
		}
	}
	// Steps that are known of once a minute, by the checkpoints of a framework.
	m := &follower{now: metricsState{Rate: 10}, stepAt: time.Now().Add(-90 * time.Second), spacing: []spacing{{time.Minute, 600}}}
	if got := m.state().Rate; got != 10 {
		t.Errorf("90 s after 600 steps in a minute: %g steps a second, want 10", got)
	}
}

// However the file is written, in whatever pieces, what is followed agrees with what a reader of the whole file finds.
func FuzzMetrics(f *testing.F) {
	f.Add([]byte("{\"step\":1,\"of\":4,\"loss\":0.5}\n{\"step\":2,\"loss\":0.25}\n"), uint8(7))
	f.Add([]byte("\n\n{}\nnull\n{\"step\":null}\n{\"step\":1e3}\n{\"step\":\"x\"}\n{\"step\":-3}"), uint8(1))
	f.Fuzz(func(t *testing.T, text []byte, piece uint8) {
		m, file := followed(t, "", 0)
		for rest := text; len(rest) > 0; {
			n := min(len(rest), int(piece)+1)
			if _, err := file.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
			m.read(false)
		}
		var want int64
		for line := range bytes.Lines(text) {
			l, _ := metrics.Parse(line)
			if step, ok := l.Step(); ok && line[len(line)-1] == '\n' && len(line) <= metrics.MaxLine {
				want = max(want, step)
			}
		}
		if got := m.state().Step; got != want {
			t.Errorf("step %d, want %d", got, want)
		}
	})
}

// A script that opens its metrics for writing truncates them. Its steps are followed all the same, and those before it are kept.
func TestTruncatedMetricsAreFollowed(t *testing.T) {
	line := func(step int) string { return fmt.Sprintf(`{"step":%d,"loss":0.5}`+"\n", step) }
	for name, tt := range map[string]struct {
		resumed, own []int
		want         string
	}{
		"shorter than before": {[]int{1, 2, 3, 4, 5}, []int{6}, line(1) + line(2) + line(3) + line(4) + line(5) + line(6)},
		"longer than before":  {[]int{1, 2}, []int{3, 4, 5, 6}, line(1) + line(2) + line(3) + line(4) + line(5) + line(6)},
		"not resumed":         {[]int{1, 2, 3}, []int{2, 3, 4, 5, 6}, line(1) + line(2) + line(3) + line(4) + line(5) + line(6)},
	} {
		t.Run(name, func(t *testing.T) {
			var resumed, own string
			for _, step := range tt.resumed {
				resumed += line(step)
			}
			for _, step := range tt.own {
				own += line(step)
			}
			m, _ := followed(t, resumed, int64(len(tt.resumed)))
			if err := os.WriteFile(m.path, []byte(own), 0o600); err != nil {
				t.Fatal(err)
			}
			m.read(false)
			if m.made() != 7-int64(tt.own[0]) || m.state().Step != 6 || *m.began() != int64(tt.own[0]) {
				t.Errorf("it is at step %d, and began at %v", m.state().Step, m.began())
			}
			r, err := m.upTo(math.MaxInt64)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if got, err := io.ReadAll(r); err != nil || string(got) != tt.want {
				t.Errorf("%v, lines\n%swant\n%s", err, got, tt.want)
			}
		})
	}
}
