// Package compiling is the part of compiling that the agent of a node of a pool has: which program does it, how that finds what it needs, and
// what became of it.
package compiling

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/built"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/proc"
	"github.com/sluiceml/sluice/internal/release"
)

// versionLimit bounds how long sluice may take to say its version.
const versionLimit = time.Minute

// Sluice returns the program that compiles: that of the worker, where it is on this machine, else the one in PATH. That must be of this
// agent's release, which is the worker's: what it builds and measures with, and how it is asked, differ from release to release. Where it is
// not the error is the user's.
func Sluice(ctx context.Context, ofWorker string) (string, error) {
	if ofWorker != "" {
		return ofWorker, nil
	}
	want := release.Version()
	help := fmt.Sprintf("use an image with sluice %s, such as the one that Sluice's Dockerfile builds (`runtime: {image: ...}` of the step or of the pool)", want)
	path, err := exec.LookPath("sluice")
	if err != nil {
		return "", fault.Errorf(fault.User, "a node that compiles needs the program sluice, and it is not in PATH there: %s", help)
	}
	ctx, cancel := context.WithTimeout(ctx, versionLimit)
	defer cancel()
	said, err := exec.CommandContext(ctx, path, "version", "--format", "json").Output()
	if ctx.Err() != nil {
		return "", fault.Errorf(fault.Infrastructure, "%s did not say its version: %v", path, context.Cause(ctx))
	}
	var has struct{ Sluice string }
	if err == nil {
		err = json.Unmarshal(said, &has)
	}
	switch {
	case err != nil:
		return "", fault.Errorf(fault.User, "%s does not say its version (%v): %s", path, err, help)
	case has.Sluice != want:
		return "", fault.Errorf(fault.User, "the node has sluice %s, but the worker is %s: %s", has.Sluice, want, help)
	}
	return path, nil
}

// Broke is the error of a program that compiles and ended with an exit code of its own accord: what is wrong with the model it would have
// reported, so it is a trouble of the machine.
func Broke(code int, said *proc.Tail) error {
	return fault.Errorf(fault.Infrastructure, "the program that compiles ended with exit code %d%s", code, said.Explain())
}

// Check returns the error of a program that compiles and ended well: nil where there are variants in its output folder. What is wrong with
// the model, the samples or what is asked of them is the user's.
func Check(output string) error {
	report, err := built.Read(filepath.Join(output, spec.CompileBuilt))
	switch {
	case err != nil:
		return fault.New(fault.Infrastructure, "read what was built: "+err.Error(), err)
	case report.Fault != "":
		return fault.New(fault.User, report.Fault, nil)
	}
	return nil
}
