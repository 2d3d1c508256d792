package metrics

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestParse(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for text, want := range map[string]Line{
		`{"step":120,"loss":0.31}`: {"step": 120, "loss": 0.31},
		`{"step":1,"phase":"eval","ok":true,"none":null,"lrs":[1],"by":{}}`: {"step": 1},
		`{"step":2,"loss":NaN}`:                           {"step": 2, "loss": nan},
		`{"a": Infinity, "b": -Infinity}`:                 {"a": inf, "b": -inf},
		`{"loss":NaN,"note":"NaN of \"a, NaN\\","NaN":1}`: {"loss": nan, "NaN": 1},
		`{"loss":"NaN","note":"Infinity and beyond"}`:     {"loss": nan},
		`{"loss":1e999,"b":-1e999}`:                       {"loss": inf, "b": -inf},
		`{}`:                                              {},
		`{"step":1`:                                       nil,
		`{"loss":NaNNaN}`:                                 nil,
		`NaN`:                                             nil,
		`[1]`:                                             nil,
		`null`:                                            nil,
		``:                                                nil,
	} {
		got, ok := Parse([]byte(text))
		if ok != (want != nil) {
			t.Errorf("%s: ok is %v", text, ok)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateNaNs()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestStep(t *testing.T) {
	for text, want := range map[string]int64{`{"step":7}`: 7, `{"step":7.0}`: 7, `{"step":NaN}`: -1, `{"step":1e30}`: -1, `{"loss":1}`: -1} {
		line, _ := Parse([]byte(text))
		if got, ok := line.Step(); ok != (want >= 0) || ok && got != want {
			t.Errorf("%s: step %d, %v", text, got, ok)
		}
	}
}

func TestLines(t *testing.T) {
	long := `{"step":2,"x":"` + strings.Repeat("x", 3*MaxLine) + `"}`
	var steps []int64
	for line, err := range Lines(strings.NewReader("{\"step\":1}\nno JSON\n" + long + "\n{\"step\":3}\n\n{\"step\":4}")) {
		if err != nil {
			t.Fatal(err)
		}
		step, _ := line.Step()
		steps = append(steps, step)
	}
	if diff := cmp.Diff([]int64{1, 3, 4}, steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	broken := errors.New("disk gone")
	for _, err := range Lines(io.MultiReader(strings.NewReader("no JSON\n"), iotest.ErrReader(broken))) {
		if !errors.Is(err, broken) {
			t.Errorf("%v, want %v", err, broken)
		}
	}
}

func TestNumber(t *testing.T) {
	for _, n := range []Number{0, -1.5, Number(math.NaN()), Number(math.Inf(1)), Number(math.Inf(-1))} {
		raw, err := json.Marshal(n)
		if err != nil {
			t.Fatal(err)
		}
		var back Number
		if err := json.Unmarshal(raw, &back); err != nil || back.String() != n.String() {
			t.Errorf("%s: %v, %v", raw, back, err)
		}
	}
	var n Number
	for _, raw := range []string{`"fish"`, `true`, `[]`} {
		if err := json.Unmarshal([]byte(raw), &n); err == nil {
			t.Errorf("%s is taken for %v", raw, n)
		}
	}
}

// FuzzParse: nothing that a program writes stops the reader.
func FuzzParse(f *testing.F) {
	for _, text := range []string{`{"step":2,"loss":NaN}`, `{"a":"\`, `-Infinity"`, `{"a":NaN"`} {
		f.Add(text)
	}
	f.Fuzz(func(_ *testing.T, text string) {
		for range Lines(strings.NewReader(text)) {
		}
	})
}

// The metrics of a long training are never in memory as a whole.
func TestUpToHoldsOneLine(t *testing.T) {
	all := strings.NewReader(strings.Repeat("{\"step\":1,\"loss\":0.125}\n", 1<<18))
	r := UpTo(all, 1, func([]byte) bool { return true })
	if _, err := io.ReadFull(r, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	if read := all.Size() - int64(all.Len()); read > MaxLine {
		t.Errorf("%d bytes are read for the first 1,000, want no more than a buffer of %d", read, MaxLine)
	}
}
