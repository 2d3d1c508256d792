package dsl

import (
	"os"
	"path/filepath"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// FuzzCompile: no document panics, takes long, or is told of a place that is not in it.
func FuzzCompile(f *testing.F) {
	cases, err := filepath.Glob("testdata/lint/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range cases {
		a, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(archive{a}.file("pipeline.yaml"))
	}
	demo, err := os.ReadFile("../examples/spam/pipeline.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(demo)
	f.Add([]byte(chain))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			t.Skip()
		}
		began := cpuTime(t)
		program, diags := Compile(document.File{Name: "f.yaml", Source: data}, document.File{}, nil)
		if took := cpuTime(t) - began; took > 5*time.Second {
			t.Errorf("took %s", took)
		}
		if (program == nil) != diags.HasErrors() {
			t.Errorf("program is nil: %v; %s", program == nil, diags)
		}
		if again, diags := Compile(document.File{Name: "f.yaml", Source: data, Accepted: true}, document.File{}, nil); again == nil && program != nil {
			t.Errorf("it was accepted, and is refused: %s", diags)
		}
		lines := document.New(document.File{Source: data}).Lines
		for _, d := range diags {
			if d.Line < 1 || d.Line > len(lines) || d.Col < 1 || utf8.Valid(data) && d.Col > utf8.RuneCountInString(lines[d.Line-1])+1 {
				t.Errorf("%d:%d is no place: %s", d.Line, d.Col, d.Message)
			}
		}
	})
}

// FuzzScalars: what was written as a duration, a share or a size reads the same when it is written again.
func FuzzScalars(f *testing.F) {
	for _, s := range []string{"90s", "1h30m", "0.5%", "100%", "16GiB", "500MB", "12", "-1s", "%", "1e9%", "99999999TiB"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := spec.ParseDuration(s); err == nil {
			if again, err := spec.ParseDuration(d.String()); err != nil || again != d {
				t.Errorf("%q: %v became %v, %v", s, d, again, err)
			}
		}
		if v, err := spec.ParseShare(s); err == nil {
			again, err := spec.ParseShare(v.String())
			if diff := float64(again - v); err != nil || diff > 1e-9 || diff < -1e-9 {
				t.Errorf("%q: %v became %v, %v", s, float64(v), float64(again), err)
			}
		}
		if v, err := spec.ParseSize(s); err == nil && v < 0 {
			t.Errorf("%q is %d bytes", s, v)
		}
	})
}
