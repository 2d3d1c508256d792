// Package delegate is what the agent of a node of a pool knows of the steps that the program sluice does there, compilations and cleanings:
// where that program is, how it is asked, and what became of it.
package delegate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/childenv"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/offload"
	"github.com/sluiceml/sluice/internal/proc"
	"github.com/sluiceml/sluice/internal/release"
	"github.com/sluiceml/sluice/internal/secret"
	"github.com/sluiceml/sluice/internal/stepargs"
	"github.com/sluiceml/sluice/training/protocol"
)

const (
	// versionLimit bounds how long sluice may take to say its version, and versionGrace how long it may then take to end.
	versionLimit, versionGrace = time.Minute, time.Second
	// maxAnswer bounds what is kept of what it says.
	maxAnswer = 64 << 10
)

// Find returns the program: that of the worker, where it is on this machine, else the one in PATH. That must be of this agent's release, which
// is the worker's: what it does, and how it is asked, differ from release to release. Where it is not the error is the user's.
func Find(ctx context.Context, ofWorker string) (string, error) {
	if ofWorker != "" {
		return ofWorker, nil
	}
	want := release.Version()
	help := fmt.Sprintf("use an image with sluice %s, such as the one that Sluice's Dockerfile builds (`runtime: {image: ...}` of the step or of the pool)", want)
	path, err := exec.LookPath("sluice")
	if err != nil {
		return "", fault.Errorf(fault.User, "a node that compiles or cleans needs the program sluice, and it is not in PATH there: %s", help)
	}
	ctx, cancel := context.WithTimeout(ctx, versionLimit)
	defer cancel()
	said := proc.NewHead(maxAnswer)
	exit, err := proc.Run(ctx, proc.Command{Path: path, Args: []string{"version", "--format", "json"}, Env: environ(), Stdout: said, Grace: versionGrace})
	if ctx.Err() != nil {
		return "", fault.Errorf(fault.Infrastructure, "%s did not report its version: %v", path, context.Cause(ctx))
	}
	if err == nil && !exit.OK() {
		err = errors.New(exit.String())
	}
	var has struct{ Sluice string }
	if err == nil {
		err = json.Unmarshal(said.Bytes(), &has)
	}
	switch {
	case err != nil:
		return "", fault.Errorf(fault.User, "%s does not report its version (%v): %s", path, err, help)
	case has.Sluice != want:
		return "", fault.Errorf(fault.User, "the node has sluice %s, but the worker is %s: %s", has.Sluice, want, help)
	}
	return path, nil
}

// environ is what a program of the user's image may know of this process's environment, which may have credentials for Temporal and for
// buckets: no more than programs beside a worker.
func environ() []string {
	return slices.DeleteFunc(protocol.Scrub(os.Environ()), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return !childenv.Inheritable(name)
	})
}

// ExitError is the error of a program that ended with an exit code of its own accord: what is wrong with the step it would have reported, so it is
// a trouble of the machine.
func ExitError(code int, said *proc.Tail) error {
	return fault.Errorf(fault.Infrastructure, "the program sluice ended with exit code %d%s", code, said.Explain())
}

// Check returns the error of a program that ended well: nil where its output folder has what is asked for, and its report no secret.
func Check(asked map[string]spec.OutputDecl, output string, mask *secret.Mask) error {
	if made, cleans := asked[spec.CleanMade]; cleans {
		return checkCleaned(filepath.Join(output, made.Path), mask)
	}
	return checkBuilt(filepath.Join(output, asked[spec.CompileBuilt].Path))
}

// checkBuilt: what is wrong with the model, the samples or what is asked of them is the user's.
func checkBuilt(dir string) error {
	report, err := stepargs.ReadReport[offload.BuildReport](dir, offload.BuildFile)
	switch {
	case err != nil:
		return fault.New(fault.Infrastructure, "read what was built: "+err.Error(), err)
	case report.Fault != "":
		return fault.New(fault.User, report.Fault, nil)
	}
	return nil
}

// checkCleaned looks for secrets, since those of programs the process that cleans does not tell from their other variables.
func checkCleaned(dir string, mask *secret.Mask) error {
	report, err := stepargs.ReadReport[offload.CleanReport](dir, offload.CleanFile)
	switch {
	case err != nil:
		return fault.New(fault.Infrastructure, "read what was cleaned: "+err.Error(), err)
	case report.Fault != nil:
		return fault.New(report.Fault.Type, report.Fault.Message, nil)
	}
	return offload.RefuseSecrets(report.Output, mask)
}
