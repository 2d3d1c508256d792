package engine

import (
	"testing"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// TestSubmissionIsNotJudgedAgain runs what an earlier build accepted and this one would not: a condition that never holds, a server that
// cannot be, a shell's variable in the name of a program, a field of rows that is not there. What no program can be made of is refused.
func TestSubmissionIsNotJudgedAgain(t *testing.T) {
	const begin = "sluice: pipeline/v1\nname: p\nsteps:\n"
	env := []byte("sluice: environment/v1\nname: e\nprometheus: nowhere\n")
	for name, c := range map[string]struct {
		pipeline string
		env      []byte
		want     bool
	}{
		"condition": {begin + "  a: {run: {command: [ls], outputs: {n: {type: int}}}, gate: n > 2 && n < 1}\n", nil, true},
		"program":   {begin + "  a: {run: {command: [$TOOL, x]}}\n", nil, true},
		"absent":    {"sluice: pipeline/v1\nname: p\nparams: {n: {type: int, required: false}}\nsteps: {a: {run: {command: [echo, \"${params.n}\"]}}}\n", nil, true},
		"row":       {begin + "  a: {clean: {transforms: [{type: ReadFromText, config: {path: x}}, {type: Filter, config: {keep: row.n > 1}}, {type: WriteToJson}]}}\n", nil, true},
		"child":     {begin + "  a: {pipeline: {steps: {b: {run: {command: [ls], outputs: {n: {type: int}}}, gate: n == n}}}}\n", nil, true},
		"server":    {begin + "  a: {run: {command: [ls]}}\n", env, true},
		"type":      {begin + "  a: {run: {command: 3}}\n", nil, false},
		"name":      {begin + "  a: {run: {command: [echo, \"${params.n}\"]}}\n", nil, false},
		"cycle":     {begin + "  a: {needs: [b], run: {command: [ls]}}\n  b: {needs: [a], run: {command: [ls]}}\n", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			sub := record.Submission{File: "p.yaml", Pipeline: []byte(c.pipeline), EnvFile: "e.yaml", Environment: c.env}
			if program, _ := dsl.Compile(document.File{Name: "p.yaml", Source: sub.Pipeline}, document.File{Name: "e.yaml", Source: c.env}, nil); program != nil {
				t.Fatal("it is accepted also when it is new")
			}
			s, err := store.Open(t.Context(), "file://"+t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			digest, err := record.WriteBlob(t.Context(), s, sub)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := NewEngine(s).Submission(t.Context(), digest); (err == nil) != c.want {
				t.Errorf("accepted: %v, want %v: %v", err == nil, c.want, err)
			}
		})
	}
}
