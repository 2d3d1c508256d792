package dsl

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

type folder string

func (f folder) Exists(p string) bool {
	_, err := os.Stat(filepath.Join(string(f), p))
	return err == nil
}

func TestDemo(t *testing.T) {
	for _, f := range []string{"pipeline.yaml", "bad.yaml"} {
		p, _ := os.ReadFile("../examples/spam/" + f)
		e, _ := os.ReadFile("../examples/spam/environment.yaml")
		at := time.Now()
		prog, diags := Compile(File{f, p}, File{"environment.yaml", e}, folder("../examples/spam"))
		t.Log(time.Since(at))
		t.Log("\n" + diags.Text(false))
		if prog != nil {
			for _, n := range prog.Graph() {
				t.Logf("%+v", n)
			}
		}
	}
}
