package integration

import (
	"context"
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// large is a pipeline whose commands carry many bytes: plain steps and instances with large outputs, chains, and values passed by `env`.
type large struct {
	wide      int // plain steps that need nothing but the first
	chain     int // steps one after the other
	instances int
	output    int // bytes of the output of each of these
	passed    int // bytes of a value that each of them gets by `env`
}

func (l large) pipeline() string {
	var b strings.Builder
	b.WriteString("sluice: pipeline/v1\nname: large\nsteps:\n")
	step := func(id, more string, size int) {
		fmt.Fprintf(&b, "  %s:\n    run: {command: [noop], outputs: {text: {type: string}}}\n%s    env: {SIZE: %q", id, more, strconv.Itoa(size))
		if id != "first" {
			b.WriteString(`, TEXT: "${steps.first.text}"`)
		}
		b.WriteString("}\n")
	}
	step("first", "", l.passed)
	for i := range l.wide {
		step(fmt.Sprint("wide", i), "    gate: size(text) >= 0\n", l.output)
	}
	for i := range l.chain {
		before := "first"
		if i > 0 {
			before = fmt.Sprint("chain", i-1)
		}
		step(fmt.Sprint("chain", i), "    needs: ["+before+"]\n", l.output)
	}
	if l.instances > 0 {
		step("fan", fmt.Sprintf("    foreach: lists.range(%d)\n", l.instances), l.output)
	}
	b.WriteString("finally:\n  last: {run: {command: [noop], outputs: {text: {type: string}}}, env: {SIZE: \"1\"}}\n")
	return b.String()
}

// text makes text of a size, that no compression makes much smaller, and that is always the same for the step of a name.
func text(name string, size int) string {
	seed := fnv.New64a()
	seed.Write([]byte(name)) //nolint:errcheck // a hash never fails
	random := rand.New(rand.NewPCG(seed.Sum64(), 1))
	raw := make([]byte, size*3/4)
	for i := range raw {
		raw[i] = byte(random.IntN(256))
	}
	return base64.RawStdEncoding.EncodeToString(raw)
}

// largeEngine is an engine whose steps put out as much text as their environment says.
func largeEngine(t *testing.T) *engineProcess {
	var kept *store.Store
	e := newEngine(t, func(ctx context.Context, in record.StepInput) (record.StepOutput, error) {
		size, err := strconv.Atoi(in.Env["SIZE"])
		if err != nil {
			return record.StepOutput{}, err
		}
		return record.StoreOutputs(ctx, kept, map[string]string{"text": text(in.Step, size)})
	})
	kept = e.store
	return e
}

// failer is what both tests and properties fail by.
type failer interface {
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// runTwice runs a pipeline, and once more with what the first run left in the cache.
func (e *engineProcess) runTwice(t failer, name string, l large) {
	in := e.submit(l.pipeline())
	in.Reuse = record.Reuse{}
	for n := range 2 {
		run := fmt.Sprintf("%s-%d", name, n)
		ctx, cancel := context.WithTimeout(e.t.Context(), testLimit)
		defer cancel()
		var out record.RunOutput
		if err := e.start(run, in).Get(ctx, &out); err != nil || out.Status != spec.StatusSucceeded {
			t.Fatalf("run %s of %+v ended as %s (%s), %v", run, l, out.Status, out.Error, err)
		}
		whole, err := record.LoadRun(e.t.Context(), e.store, run)
		if err != nil {
			t.Fatalf("%v", err)
		}
		if last := whole.Steps[len(whole.Steps)-1]; last.Step != "last" || last.Status != spec.StatusSucceeded {
			t.Errorf("run %s: %s ended as %s", run, last.Step, last.Status)
		}
	}
}

// noneTerminated checks that the server has ended no workflow by itself.
func (e *engineProcess) noneTerminated(t failer) {
	for _, w := range e.all("ExecutionStatus = 'Terminated'") {
		t.Errorf("workflow %s was terminated", w.GetExecution().GetWorkflowId())
	}
}

// TestManyBytes: what a workflow task carries stays below Temporal's limit of a request, however much its steps produce and pass on.
func TestManyBytes(t *testing.T) {
	for name, l := range map[string]large{
		"outputs":  {instances: sized(2000, 200), output: 3700},
		"env":      {instances: 64, output: 10, passed: 100_000},
		"plain":    {wide: 40, output: 10, passed: 100_000},
		"two-long": {chain: 12, wide: 30, output: 3900, passed: 120_000},
	} {
		t.Run(name, func(t *testing.T) {
			e := largeEngine(t)
			e.runTwice(t, name, l)
			e.noneTerminated(t)
		})
	}
}

// TestManyBytesOfAnyPipeline does so for pipelines that nobody thought of.
func TestManyBytesOfAnyPipeline(t *testing.T) {
	e := largeEngine(t)
	n, cases := 0, 20
	if os.Getenv(soakVariable) != "" {
		cases = 300
	}
	rapid.Check(t, func(r *rapid.T) {
		if n++; n > cases && !r.Failed() {
			return
		}
		wide := rapid.IntRange(0, 60).Draw(r, "wide")
		l := large{
			wide: wide, chain: rapid.IntRange(0, 10).Draw(r, "chain"), instances: rapid.IntRange(0, 300).Draw(r, "instances"),
			output: rapid.OneOf(rapid.IntRange(0, 4090), rapid.IntRange(4090, 9000)).Draw(r, "output"), passed: rapid.IntRange(0, 60_000).Draw(r, "passed"),
		}
		e.runTwice(r, fmt.Sprint("any-", n), l)
		e.noneTerminated(r)
	})
}
