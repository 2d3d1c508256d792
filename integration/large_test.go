package integration

import (
	"context"
	"encoding/base64"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
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
		fmt.Fprintf(&b, "  %s:\n    run: {command: [noop], outputs: {text: {type: string}}}\n%s    env: {STEP: %s, SIZE: %q", id, more, id, strconv.Itoa(size)) // else steps that put out different texts have one key
		if id != "first" {
			b.WriteString(`, TEXT: "${steps.first.text}"`)
		}
		if id == "fan" {
			b.WriteString(`, ITEM: "${item}"`) // else all have one key
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
	seed.Write([]byte(name))
	random := rand.New(rand.NewPCG(seed.Sum64(), 1))
	raw := make([]byte, size*3/4)
	for i := range raw {
		raw[i] = byte(random.IntN(256))
	}
	return base64.RawStdEncoding.EncodeToString(raw)
}

// largeEngine is an engine whose steps put out as much text as their environment says. executed counts them.
type largeEngine struct {
	*engineProcess
	executed atomic.Int64
}

func newLargeEngine(t *testing.T) *largeEngine {
	var kept *store.Store
	e := new(largeEngine)
	e.engineProcess = newEngine(t, func(ctx context.Context, in record.StepInput) (record.StepOutput, error) {
		e.executed.Add(1)
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
func (e *largeEngine) runTwice(t failer, name string, l large) {
	in := e.submit(l.pipeline())
	in.Reuse = record.Reuse{}
	for n := range 2 {
		run := fmt.Sprintf("%s-%d", name, n)
		before := e.executed.Load()
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
		if executed := e.executed.Load() - before; n > 0 && executed > 1 { // what finally does is not reused
			t.Errorf("run %s has executed %d steps again", run, executed)
		}
	}
}

// noneTerminated checks that the server has ended no workflow by itself.
func (e *largeEngine) noneTerminated(t failer) {
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
			e := newLargeEngine(t)
			e.runTwice(t, name, l)
			e.noneTerminated(t)
		})
	}
}

// TestManyBytesOfAnyPipeline does so for pipelines that nobody thought of.
func TestManyBytesOfAnyPipeline(t *testing.T) {
	checks := flag.Lookup("rapid.checks")
	before := checks.Value.String()
	t.Cleanup(func() { _ = checks.Value.Set(before) })
	cases, most := "20", 60
	if os.Getenv(soakVariable) != "" {
		cases, most = "200", 300
	}
	if err := checks.Value.Set(cases); err != nil {
		t.Fatal(err)
	}
	e, n := newLargeEngine(t), 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		e.runTwice(r, fmt.Sprint("any-", n), large{
			wide: rapid.IntRange(0, 40).Draw(r, "wide"), chain: rapid.IntRange(0, 6).Draw(r, "chain"),
			instances: rapid.IntRange(0, most).Draw(r, "instances"), output: rapid.IntRange(0, 9000).Draw(r, "output"),
			passed: rapid.IntRange(0, 100_000).Draw(r, "passed"),
		})
		e.noneTerminated(r)
	})
}
