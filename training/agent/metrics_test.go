package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func follow(t testing.TB, resumed string, from int64) (*metrics, *os.File) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "metrics.jsonl")
	if err := os.WriteFile(path, []byte(resumed), 0o600); err != nil {
		t.Fatal(err)
	}
	m := newMetrics(path, from, stallFloor)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return m, f
}

func TestMetricsAreFollowed(t *testing.T) {
	m, f := follow(t, `{"step":5,"of":50,"loss":9}`+"\n", 5)
	if first, got := m.read(), m.state(); first || got.Step != 5 || got.Of != 50 || got.Loss != 9 {
		t.Fatalf("before the first line: first %v, %+v, want the state of the line that was resumed", first, got)
	}
	for _, tt := range []struct {
		write string
		first bool
		step  int64
		loss  float64
	}{
		{`{"step":6,"loss":0.5}` + "\n", true, 6, 0.5},
		{`{"step":7,"loss":0.2`, false, 6, 0.5}, // half a line
		{"5}\n", false, 7, 0.25},
		{"no JSON\n\n[1]\n" + `{"loss":3}` + "\n", false, 7, 0.25},
		{`{"step":7,"f1":0.9}` + "\n", false, 7, 0.25}, // a metric between two steps
		{strings.Repeat("x", 3*maxLine) + "\n" + `{"step":8,"loss":0.1}` + "\n", false, 8, 0.1},
		{`{"step":8}` + "\n" + `{"step":12,"loss":0.05}` + "\n", false, 12, 0.05},
	} {
		if _, err := f.WriteString(tt.write); err != nil {
			t.Fatal(err)
		}
		first := m.read()
		got := m.state()
		if first != tt.first || got.Step != tt.step || got.Loss != tt.loss || got.Of != 50 {
			t.Errorf("after %.40q: first %v, %+v, want first %v, step %d, loss %v of 50", tt.write, first, got, tt.first, tt.step, tt.loss)
		}
		if got.FirstStep != 6 || got.FirstAt.IsZero() || got.At.Before(got.FirstAt) {
			t.Errorf("after %.40q: the first step is %d at %v, and the last at %v; want step 6, and it first", tt.write, got.FirstStep, got.FirstAt, got.At)
		}
	}
}

func TestMetricsUpToAStep(t *testing.T) {
	m, f := follow(t, "", 0)
	for step := range 5 {
		fmt.Fprintf(f, "{\"step\":%d,\"loss\":%d}\n", step+1, step)
	}
	fmt.Fprint(f, "noise\n{\"step\":3,\"f1\":1}\n{\"step\":2")
	r, err := m.upTo(3)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	want := "{\"step\":1,\"loss\":0}\n{\"step\":2,\"loss\":1}\n{\"step\":3,\"loss\":2}\n{\"step\":3,\"f1\":1}\n"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("metrics up to step 3 (-want +got):\n%s", diff)
	}
}

func TestStall(t *testing.T) {
	start := time.Now()
	for _, tt := range []struct {
		name    string
		spacing []time.Duration
		silent  time.Duration
		want    bool
	}{
		{"too few steps to tell", []time.Duration{time.Second}, 24 * time.Hour, false},
		{"fast steps have the floor", many(time.Second, 10), stallFloor - time.Second, false},
		{"beyond the floor", many(time.Second, 10), stallFloor + time.Second, true},
		{"slow steps have their factor", many(time.Minute, 10), stallFactor*time.Minute - time.Second, false},
		{"beyond the factor", many(time.Minute, 10), stallFactor*time.Minute + time.Second, true},
	} {
		m := &metrics{floor: stallFloor, spacing: tt.spacing, stepAt: start}
		if got := m.stalled(start.Add(tt.silent)); got != tt.want {
			t.Errorf("%s: stalled %v, want %v", tt.name, got, tt.want)
		}
	}
}

func many(d time.Duration, n int) []time.Duration {
	all := make([]time.Duration, n)
	for i := range all {
		all[i] = d
	}
	return all
}

// However the file is written, in whatever pieces, what is followed agrees with what a reader of the whole file finds.
func FuzzMetrics(f *testing.F) {
	f.Add([]byte("{\"step\":1,\"of\":4,\"loss\":0.5}\n{\"step\":2,\"loss\":0.25}\n"), uint8(7))
	f.Add([]byte("\n\n{}\nnull\n{\"step\":null}\n{\"step\":1e3}\n{\"step\":\"x\"}\n{\"step\":-3}"), uint8(1))
	f.Fuzz(func(t *testing.T, text []byte, piece uint8) {
		m, file := follow(t, "", 0)
		for rest := text; len(rest) > 0; {
			n := min(len(rest), int(piece)+1)
			if _, err := file.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
			m.read()
		}
		var want int64
		for line := range bytes.Lines(text) {
			var l struct {
				Step *int64   `json:"step"`
				Of   int64    `json:"of"`
				Loss *float64 `json:"loss"`
			}
			if line[len(line)-1] == '\n' && len(line) <= maxLine && json.Unmarshal(line, &l) == nil && l.Step != nil {
				want = max(want, *l.Step)
			}
		}
		if got := m.state().Step; got != want {
			t.Errorf("step %d, want %d", got, want)
		}
	})
}
