// Package embedded is the serving target inside Sluice: a gateway whose releases run on ONNX Runtime in the same process.
package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/serving/batch"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/onnx"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/serving/triton/layout"
	"github.com/sluiceml/sluice/store"
)

// Serve starts the gateway of a target, with ONNX Runtime in this process. dir is a folder of its own, which is emptied; outcomes is the folder of
// the outcomes of trials, which all targets of the machine may share. gateway.ErrPortInUse when a port is taken.
func Serve(
	ctx context.Context, s *store.Store, target string, t spec.EmbeddedTarget, ports gateway.Ports, dir, outcomes, labelKey string, log *slog.Logger,
) (*gateway.Server, error) {
	tried := trials{dir: outcomes, store: s, target: t, log: log}
	open, err := gateway.Local(s, dir, func(ctx context.Context, r routing.Release, model string, waiting func(string)) (gateway.Upstream, error) {
		manifest, err := s.Manifest(ctx, r.Model)
		if err != nil {
			return nil, err
		}
		batched := manifest.Meta[spec.MetaBatched]
		if err := tried.pass(ctx, r, batched, model, waiting); err != nil {
			return nil, err
		}
		return load(ctx, t, batched, model, log.With("release", r.Version))
	})
	if err != nil {
		return nil, fmt.Errorf("target %s: %w", target, err)
	}
	return gateway.Serve(ctx, ports, gateway.Options{Store: s, Target: target, Open: open, LabelKey: labelKey, Logger: log})
}

// load opens the one .onnx file of a model artifact, and runs the sizes of its batches once. batched is the share of samples whose answers are the
// same among others, where a compile step has measured it.
func load(ctx context.Context, t spec.EmbeddedTarget, batched, dir string, log *slog.Logger) (gateway.Upstream, error) {
	if _, err := os.Stat(filepath.Join(dir, layout.EngineFile)); err == nil {
		return nil, errors.New("the model is a TensorRT engine, which only a server with a GPU can load, but an embedded target runs ONNX " +
			"Runtime: release an `onnx` variant of the compile step, or use a target with `triton`, or with `process` for an engine of TensorRT for RTX")
	}
	file, err := onnx.ModelFile(dir)
	if err != nil {
		return nil, err
	}
	session, err := onnx.OpenWith(file, onnx.Options{Threads: t.Threads, Providers: t.Provider})
	if err != nil {
		return nil, err
	}
	provider, refused := session.Provider()
	if refused != nil {
		log.Warn("a release is computed by another execution provider than the target's first", "provider", provider, "reason", refused)
	} else {
		log.Info("a release is computed by an execution provider", "provider", provider)
	}
	maxBatch, depends := t.Batching.MaxBatch, batched != "" && batched != "1"
	switch {
	case depends && maxBatch > 1:
		log.Warn("requests to a release are batched, as the target's max_batch asks, although its answers depend on the rows of others", "parity.batched", batched)
	case depends && maxBatch == 0:
		maxBatch = 1
		log.Info("requests to a release are not batched", "reason", "its answers depend on the rows that run with them", "parity.batched", batched)
	}
	batcher := batch.New(session, batch.Options{
		Instances: instances(t, runtime.GOMAXPROCS(0)),
		MaxBatch:  cmp.Or(maxBatch, spec.DefaultMaxBatch),
		Trusted:   maxBatch > 0 || batched != "",
		MaxDelay:  time.Duration(t.Batching.MaxDelay),
		Preferred: t.Batching.Preferred,
		MaxQueue:  t.Batching.MaxQueue,
		TargetP99: time.Duration(t.Batching.TargetP99),
		Logger:    log,
	})
	if err := batcher.WarmUp(ctx); err != nil {
		log.Info("requests to a release are not batched", "model", filepath.Base(file), "reason", err)
	}
	if ctx.Err() != nil {
		return nil, errors.Join(context.Cause(ctx), batcher.Close())
	}
	return upstream{batcher, provider}, nil
}

// upstream is a model and the execution provider that computes it.
type upstream struct {
	*batch.Batcher
	provider string
}

// Provider is for the gateway's metrics.
func (u upstream) Provider() string { return u.provider }

// Check returns why no execution provider of a target can be used by this process; nil if one can. A gateway with such a target would lose the
// releases that another one serves.
func Check(t spec.EmbeddedTarget) error {
	if err := onnx.CheckProviders(t.Provider); err != nil {
		return fault.Errorf(fault.Invalid, "%w", err)
	}
	return nil
}

// instances is how many inferences of a release run at once: as many as the processors have threads for, unless the target says.
func instances(t spec.EmbeddedTarget, processors int) int {
	return cmp.Or(t.Instances, max(processors/max(t.Threads, 1), 1))
}
