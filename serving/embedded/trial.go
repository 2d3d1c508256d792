package embedded

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/google/renameio/v2"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/serving/answer"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/onnx"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/serving/trial"
	"github.com/sluiceml/sluice/store"
)

// trialArg is the argument of the child process of a trial.
const trialArg = "__trial"

// trialLimit is how long a model may take to be loaded and warmed up. Tests set it.
var trialLimit = 10 * time.Minute

// A trial needs nothing of main, so that every program that serves targets has it, tests included.
func init() {
	if len(os.Args) == 2 && os.Args[1] == trialArg {
		os.Exit(tryModel())
	}
}

// attempt is what the child does.
type attempt struct {
	Target  spec.EmbeddedTarget `json:"target"`
	Batched string              `json:"batched"`
	Model   string              `json:"model"` // folder
	Rows    []answer.Row        `json:"rows"`
}

// tryModel is the child: it loads a model and makes the inferences of its warm-up. Errors are for the gateway to find; the question is
// whether the process survives.
func tryModel() int {
	trial.Yield()
	var a attempt
	if err := json.NewDecoder(os.Stdin).Decode(&a); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	upstream, err := load(context.Background(), a.Target, a.Batched, a.Model, slog.New(slog.DiscardHandler))
	if err == nil {
		gateway.Rehearse(context.Background(), upstream, a.Rows)
		_ = upstream.Close()
	}
	return 0
}

// trials loads models in a child process before they are loaded into this one, and remembers the outcomes: a model that crashed is not
// tried again on this machine, and one that did not needs no further trial.
type trials struct {
	dir    string
	store  *store.Store
	target spec.EmbeddedTarget
	log    *slog.Logger
}

// pass returns nil for a model that can be loaded into this process. batched is that of load.
func (t trials) pass(ctx context.Context, r routing.Release, batched, model string, waiting func(string)) error {
	build, err := onnx.Build(t.target.Provider)
	if err != nil {
		return err
	}
	file := filepath.Join(t.dir, t.key(r, build))
	crash, err := os.ReadFile(file)
	if err != nil {
		waiting("a trial of the model in a separate process")
		var some []answer.Row
		var unread error
		if r.WarmUp != nil {
			some, unread = gateway.WarmUpRows(ctx, t.store, *r.WarmUp)
		}
		if crash, err = t.try(ctx, attempt{Target: t.target, Batched: batched, Model: model, Rows: some}); err != nil {
			return err
		}
		if err := cmp.Or(unread, os.MkdirAll(t.dir, 0o700), renameio.WriteFile(file, crash, 0o600)); err != nil {
			t.log.Warn("the trial of a model is repeated when it is loaded again", "release", r.Version, "error", err)
		}
	}
	if len(crash) > 0 {
		return fmt.Errorf("the model crashes ONNX Runtime, and is not loaded on this machine again: %s (seen in a separate process)", crash)
	}
	return nil
}

// try loads a model in a child process and returns how that crashed, nothing if it did not.
func (t trials) try(ctx context.Context, a attempt) (crash []byte, err error) {
	limited, cancel := context.WithTimeout(ctx, trialLimit)
	defer cancel()
	_, err = trial.Run(limited, "/proc/self/exe", trialArg, a)
	if failed, ok := errors.AsType[*trial.Crash](err); ok {
		return []byte(failed.Reason), nil
	}
	if ctx.Err() == nil && limited.Err() != nil {
		err = fmt.Errorf("the model was not loaded and warmed up within %v", trialLimit)
	}
	return nil, err
}

// key names everything that the outcome of a trial depends on.
func (t trials) key(r routing.Release, build string) string {
	raw, _ := json.Marshal([]any{r.Model.Digest, r.WarmUp, build, processor(), t.target.Threads, t.target.Provider, t.target.Batching}) // plain values
	return fmt.Sprintf("%x", sha256.Sum256(raw))
}

// features are what chooses ONNX Runtime's kernels, and does not change from one moment to the next.
var features = regexp.MustCompile(`(?m)^(model name|flags|Features|CPU part)\s*:.*$`)

// processor identifies the kind of processor. A folder may move to another machine.
func processor() []string {
	raw, _ := os.ReadFile("/proc/cpuinfo") // without it, one machine is like another
	lines := features.FindAllString(string(raw), -1)
	slices.Sort(lines)
	return slices.Compact(lines)
}
