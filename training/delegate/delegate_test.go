package delegate

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/offload"
	"github.com/sluiceml/sluice/internal/proc"
	"github.com/sluiceml/sluice/internal/release"
	"github.com/sluiceml/sluice/internal/secret"
	"github.com/sluiceml/sluice/internal/stepargs"
)

// TestFind: a node does a step with the worker's own program, or with one of the same version in PATH.
func TestFind(t *testing.T) {
	release.Linked = "v1.2.3"
	t.Cleanup(func() { release.Linked = "" })
	says := func(version string) string {
		return fmt.Sprintf(`[ "$*" = "version --format json" ] && echo '{"sluice": %q, "go": "go1.26"}'`, version)
	}
	for _, tt := range []struct {
		name, script, ofWorker string
		want                   string // in the error; empty for none
	}{
		{"the same", says("v1.2.3"), "", ""},
		{"another", says("v1.2.4"), "", "the node has sluice v1.2.4, but the worker is v1.2.3: use an image with sluice v1.2.3"},
		{"none", "", "", "needs the program sluice, and it is not in PATH there: use an image with sluice v1.2.3"},
		{"one that fails", "exit 1", "", "does not report its version (exit code 1)"},
		{"one that says something else", "echo v1.2.3", "", "does not report its version (invalid character"},
		{"one that says much", "/usr/bin/head -c 10000000 /dev/zero", "", "does not report its version (invalid character"},
		{"on the worker's machine", says("v1.2.4"), "/opt/sluice", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("PATH", dir)
			path := filepath.Join(dir, "sluice")
			if tt.script != "" {
				if err := os.WriteFile(path, []byte("#!/bin/sh\n"+tt.script+"\n"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if tt.ofWorker != "" {
				path = tt.ofWorker
			}
			got, err := Find(t.Context(), tt.ofWorker)
			switch {
			case tt.want == "" && (err != nil || got != path):
				t.Errorf("got %q, %v, want %q", got, err, path)
			case tt.want != "" && (fault.TypeOf(err) != fault.User || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got a %s error %v, want one of the user's that says %q", fault.TypeOf(err), err, tt.want)
			}
		})
	}
}

// TestFindTellsNoCredentials: the program is the user's, and the environment the agent's.
func TestFindTellsNoCredentials(t *testing.T) {
	release.Linked = "v1.2.3"
	t.Cleanup(func() { release.Linked = "" })
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	for _, name := range []string{"SLUICE_TEMPORAL_TOKEN", "TEMPORAL_API_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"} {
		t.Setenv(name, "hunter-2-hunter")
	}
	script := fmt.Sprintf("#!/bin/sh\n/usr/bin/env > %s\necho '{\"sluice\": \"v1.2.3\"}'\n", filepath.Join(dir, "environ"))
	if err := os.WriteFile(filepath.Join(dir, "sluice"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Find(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	environ, err := os.ReadFile(filepath.Join(dir, "environ"))
	if err != nil || !strings.Contains(string(environ), "PATH="+dir) || strings.Contains(string(environ), "hunter") {
		t.Errorf("%v; it was told:\n%s", err, environ)
	}
}

// TestEnds: what is wrong with the model or the rows has the type it has beside the worker, what is wrong with the machine is no error of the
// user's.
func TestEnds(t *testing.T) {
	compiles, cleans := new(spec.CompileModel).Train().Outputs, new(spec.Clean).Train().Outputs
	output := t.TempDir()
	dir := filepath.Join(output, spec.CompileBuilt)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Check(compiles, output, nil); fault.TypeOf(err) != fault.Infrastructure || !strings.Contains(err.Error(), offload.BuildFile) {
		t.Errorf("without a report: %v", err)
	}
	for _, report := range []offload.BuildReport{{Fault: "the dataset has no split"}, {Variants: map[string]offload.Variant{"a": {}}}} {
		if err := stepargs.WriteReport(dir, offload.BuildFile, report); err != nil {
			t.Fatal(err)
		}
		err := Check(compiles, output, nil)
		if wrong := fault.TypeOf(err) == fault.User && err.Error() == report.Fault; wrong != (report.Fault != "") || !wrong && err != nil {
			t.Errorf("a report with the fault %q: %v", report.Fault, err)
		}
	}
	made := filepath.Join(output, spec.CleanMade)
	if err := os.Mkdir(made, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Check(cleans, output, nil); fault.TypeOf(err) != fault.Infrastructure || !strings.Contains(err.Error(), offload.CleanFile) {
		t.Errorf("without a report on a cleaning: %v", err)
	}
	for _, report := range []offload.CleanReport{{Fault: &fault.Error{Type: fault.Invalid, Message: "no such split"}}, {}} {
		if err := stepargs.WriteReport(made, offload.CleanFile, report); err != nil {
			t.Fatal(err)
		}
		err := Check(cleans, output, nil)
		if report.Fault == nil && err != nil || report.Fault != nil && (fault.TypeOf(err) != fault.Invalid || err.Error() != report.Fault.Message) {
			t.Errorf("a report with the fault %v: %v", report.Fault, err)
		}
	}
	said := proc.NewTail(5)
	if _, err := io.WriteString(said, "building a\nno space left on device\n"); err != nil {
		t.Fatal(err)
	}
	if err := ExitError(4, said); fault.TypeOf(err) != fault.Infrastructure || !strings.Contains(err.Error(), "exit code 4: no space left on device") {
		t.Errorf("a program that broke: %v", err)
	}
}

// TestCheckRefusesSecrets: what programs on a node know of secrets does not get into the outputs of a cleaning, which everyone can read. What
// the engine counts, and the document names, is no secret.
func TestCheckRefusesSecrets(t *testing.T) {
	cleans, output := new(spec.Clean).Train().Outputs, t.TempDir()
	made := filepath.Join(output, spec.CleanMade)
	if err := os.Mkdir(made, 0o700); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("hunter-3-", 40)
	mask := secret.NewMask("hunter-2-hunter", "1024", "test", long)
	number := 1024.0
	profile := func(name string, c spec.ColumnProfile) spec.Profile {
		return spec.Profile{Columns: map[string]spec.ColumnProfile{name: c}}
	}
	for says, out := range map[string]spec.CleanOutput{
		`the rule "detect/***" contains`:                       {Rules: map[string]spec.Rule{"detect/hunter-2-hunter": {}}},
		`the reason "detect/no-***" contains`:                  {Reasons: map[string]int64{"detect/no-hunter-2-hunter": 1}},
		`the name of the field "***" contains`:                 {Profile: profile("hunter-2-hunter", spec.ColumnProfile{})},
		`a value in the profile of the field "seen" contains`:  {Profile: profile("seen", spec.ColumnProfile{Top: []spec.TopValue{{Value: "hunter-2-hunter"}}})},
		`a value in the profile of the field "cut" contains`:   {Profile: profile("cut", spec.ColumnProfile{Top: []spec.TopValue{{Value: "by " + long[:94] + "…"}}})},
		`a value in the profile of the field "n" contains`:     {Profile: profile("n", spec.ColumnProfile{Max: &number})},
		`a value in the profile of the field "early" contains`: {Profiles: map[string]spec.Profile{"before": profile("early", spec.ColumnProfile{Min: &number})}},
		"": {
			Rows: spec.Rows{Read: 1024, Kept: 1024}, Rules: map[string]spec.Rule{"short": {Dropped: 1024}}, Splits: map[string]int64{"test": 1024},
			Profile: profile("n", spec.ColumnProfile{Distinct: 1024, Top: []spec.TopValue{{Value: "a", Count: 1024}}}),
		},
	} {
		if err := stepargs.WriteReport(made, offload.CleanFile, offload.CleanReport{Output: out}); err != nil {
			t.Fatal(err)
		}
		err := Check(cleans, output, mask)
		if says == "" && err != nil || says != "" && (fault.TypeOf(err) != fault.User || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hunter")) {
			t.Errorf("%v, want an error of the user that says %q and does not tell the secret", err, says)
		}
	}
}
