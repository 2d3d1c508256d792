package compile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/sluiceml/sluice/compile/trtexec"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/triton/layout"
)

// maxLayers is how many of an engine's slowest layers are told.
const maxLayers = 10

// Files in the folder that trtexec works in.
const (
	graphFile   = "graph.onnx"
	cacheFile   = "timing.cache"
	layersFile  = "layers.json"
	timesFile   = "times.json"
	profileFile = "profile.json"
	outputFile  = "output.json"
)

// bench is what the engines of a step have in common: trtexec, where it builds any, its GPU, and what they are built from, by partKey.
type bench struct {
	tool  *trtexec.Tool
	parts map[string]*part
}

// openBench looks for trtexec, cuts the source where variants ask for it, and writes the samples. All of it comes before anything is
// built: machine, model and samples decide whether an engine can be.
func (job Job) openBench(ctx context.Context, source string) (*bench, error) {
	b := &bench{parts: map[string]*part{}}
	var err error
	if slices.Contains(job.Spec.Engines(), spec.FlavorTrtexec) {
		if b.tool, err = trtexec.Find(ctx); err != nil {
			return nil, fromTool(err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(job.Spec.Variants)) {
		v := job.Spec.Variants[name].TensorRT
		if v == nil {
			continue
		}
		p := b.parts[partKey(*v)]
		if p == nil {
			dir := filepath.Join(job.Dir, fmt.Sprintf(".part-%d", len(b.parts)))
			p, err = job.cut(ctx, source, dir, v.Inputs)
			b.parts[partKey(*v)] = p
		}
		if err == nil {
			err = p.check(v.Shapes)
		}
		if err != nil {
			return nil, named(err, "variant "+name)
		}
	}
	return b, nil
}

// close removes what engines are built from: what is left of the job's folder is the variants.
func (b *bench) close() {
	for _, p := range b.parts {
		_ = os.RemoveAll(p.dir) // the step removes what is left
	}
}

// engine is a TensorRT engine that is being built and measured.
type engine struct {
	*part
	tool    *trtexec.Tool
	job     Job
	spec    spec.TensorRTVariant
	file    string // the engine
	scratch string // folder that trtexec works in
}

// buildEngine builds an engine, runs it on the samples and measures it.
func (job Job) buildEngine(ctx context.Context, on *bench, name, file, scratch string, spec spec.TensorRTVariant) (made, error) {
	spec.Precision = cmp.Or(spec.Precision, trtexec.FP32)
	e := &engine{part: on.parts[partKey(spec)], tool: on.tool, job: job, spec: spec, file: file, scratch: scratch}
	if spec.IsRTX() {
		return e.buildRTX(ctx)
	}
	if err := e.build(ctx); err != nil {
		return made{}, err
	}
	job.Progress("measuring " + name)
	measured, err := e.measure(ctx)
	if err != nil {
		return made{}, err
	}
	told, err := e.told()
	if err != nil {
		return made{}, err
	}
	if err := e.keepFront(); err != nil {
		return made{}, err
	}
	return made{file: file, meta: e.describe(e.tool.Platform).Meta(), engine: told, measured: &measured}, nil
}

// fromTool makes an error of trtexec one of this package: a machine that has no TensorRT will not have it at the next attempt either.
func fromTool(err error) error {
	if fault, ok := errors.AsType[*trtexec.UnavailableError](err); ok {
		return &ModelError{fault.Message}
	}
	if failed, ok := errors.AsType[*trtexec.ExitError](err); ok {
		return unlessKilled(failed.Exit, failed.Error())
	}
	return err
}

func (e *engine) path(name string) string { return filepath.Join(e.scratch, name) }

// build has trtexec build the engine, with the timing cache of its platform.
func (e *engine) build(ctx context.Context) error {
	graph, err := e.typedGraph(ctx)
	if err != nil {
		return err
	}
	cached, err := e.job.fetchTimings(ctx, e.tool.Platform, e.path(cacheFile))
	if err != nil {
		return err
	}
	b := trtexec.Build{
		ONNX: graph, Engine: e.file, Precision: e.spec.Precision, Workspace: int64(e.spec.Workspace), Level: e.spec.BuilderLevel,
		TimingCache: cacheFile, Layers: layersFile,
	}
	if s := e.spec.Shapes; s != nil {
		b.Min, b.Opt, b.Max = shapesOf(s.Min), shapesOf(s.Opt), shapesOf(s.Max)
	}
	err = e.tool.Run(ctx, e.scratch, e.tool.BuildFlags(b))
	if failed, ok := errors.AsType[*trtexec.ExitError](err); ok && failed.Exit.Signal == 0 && cached {
		// A timing cache that TensorRT does not take ends the build, and would end every other.
		if err := os.Remove(e.path(cacheFile)); err != nil {
			return err
		}
		err = e.tool.Run(ctx, e.scratch, e.tool.BuildFlags(b))
	}
	if err != nil {
		return fromTool(err)
	}
	if info, err := os.Stat(e.file); err != nil || info.Size() == 0 {
		return &ModelError{"trtexec reported success but wrote no engine"}
	}
	return e.job.storeTimings(ctx, e.tool.Platform, e.path(cacheFile))
}

// typedGraph returns the ONNX file that the engine is built from: the part itself where the precision is a flag, and else one that has it.
func (e *engine) typedGraph(ctx context.Context) (string, error) {
	isFlag := e.spec.Precision == trtexec.FP16 && e.tool != nil && e.tool.Major == trtexec.Major10
	if e.spec.Precision == trtexec.FP32 || isFlag {
		return e.graph(), nil
	}
	b := buildJob{Source: e.graph(), Target: e.path(graphFile), Precision: e.spec.Precision, KeepFP32: []string{}, Optimize: "none"}
	if c := e.spec.Calibration; c != nil {
		b.Optimize, b.Explicit = "basic", true
		var err error
		if b.Calibration, err = e.job.calibrationRows(ctx, e.cutModel, e.scratch, *c); err != nil {
			return "", err
		}
	} else if e.spec.Precision == trtexec.INT8 {
		return "", &ModelError{"`precision: int8` needs `calibration`"}
	}
	return graphFile, runTools(ctx, e.job.Python, b)
}

func shapesOf(dims map[string][]int) trtexec.Shapes {
	shapes := trtexec.Shapes{}
	for name, own := range dims {
		for _, d := range own {
			shapes[name] = append(shapes[name], int64(d))
		}
	}
	return shapes
}

// measure times the engine on the first sample, and compares what it puts out for all of them with the source model's.
func (e *engine) measure(ctx context.Context) (Measured, error) {
	parity := newParity()
	var measured Measured
	for batch, err := range e.batches() {
		if err != nil {
			return Measured{}, err
		}
		if parity.rows == 0 {
			if measured, err = e.time(ctx, batch.first); err != nil {
				return Measured{}, err
			}
		}
		outputs, err := e.infer(ctx, batch.inputs)
		if err != nil {
			return Measured{}, err
		}
		for i := range batch.expected {
			own, err := batch.outputsOf(outputs, i)
			if err == nil {
				err = parity.add(e.job.Spec.Compare, batch.expected[i], own)
			}
			if err != nil {
				return Measured{}, &ModelError{fmt.Sprintf("sample %d: %v", parity.rows+1, err)}
			}
		}
	}
	measured.Parity = parity.result()
	return measured, nil
}

// time measures latency and throughput on one sample, and its layers.
func (e *engine) time(ctx context.Context, inputs []oip.Tensor) (Measured, error) {
	inference, err := e.inference(inputs)
	if err != nil {
		return Measured{}, err
	}
	if err := e.tool.Run(ctx, e.scratch, e.tool.TimeFlags(inference, timesFile, profileFile)); err != nil {
		return Measured{}, fromTool(err)
	}
	times, err := trtexec.ReadTimes(e.path(timesFile))
	return Measured{
		Latency: spec.Latency{P50MS: round(times.P50MS), P99MS: round(times.P99MS)}, Throughput: round(times.PerSecond),
	}, err
}

// infer runs the engine once.
func (e *engine) infer(ctx context.Context, inputs []oip.Tensor) ([]trtexec.Output, error) {
	inference, err := e.inference(inputs)
	if err != nil {
		return nil, err
	}
	if err := e.tool.Run(ctx, e.scratch, e.tool.OutputFlags(inference, outputFile)); err != nil {
		return nil, fromTool(err)
	}
	outputs, err := trtexec.ReadOutputs(e.path(outputFile))
	if infinite, ok := errors.AsType[*trtexec.NotFiniteError](err); ok {
		return nil, &ModelError{infinite.Error()}
	}
	return outputs, err
}

// inference writes inputs as trtexec reads them.
func (e *engine) inference(inputs []oip.Tensor) (trtexec.Inference, error) {
	i := trtexec.Inference{Engine: e.file, Inputs: map[string]string{}}
	if e.spec.Shapes != nil {
		i.Shapes = trtexec.Shapes{}
	}
	for n, t := range inputs {
		if i.Shapes != nil {
			i.Shapes[t.Name] = t.Shape
		}
		name := fmt.Sprintf("input-%d.bin", n)
		if err := writeRaw(e.path(name), t); err != nil {
			return i, err
		}
		i.Inputs[t.Name] = name
	}
	return i, nil
}

// told is what the report and gates know of the engine.
func (e *engine) told() (*spec.EngineOutput, error) {
	types, err := trtexec.ReadLayers(e.path(layersFile))
	if err != nil {
		return nil, err
	}
	profile, err := trtexec.ReadProfile(e.path(profileFile))
	if err != nil {
		return nil, err
	}
	out := e.output(e.tool.Platform)
	for name, count := range types {
		name = cmp.Or(name, "other")
		out.Layers[name] += count
	}
	for _, l := range profile[:min(len(profile), maxLayers)] {
		out.Slowest = append(out.Slowest, spec.EngineLayer{Name: l.Name, MeanMS: round(l.MeanMS), Share: round(l.Share)})
	}
	return out, nil
}

func (e *engine) output(p trtexec.Platform) *spec.EngineOutput {
	return &spec.EngineOutput{
		GPU: p.GPU, ComputeCapability: p.ComputeCapability, Driver: p.Driver, Version: p.TensorRT, Inputs: e.spec.Inputs,
		Layers: map[string]int{}, Slowest: []spec.EngineLayer{},
	}
}

// keepFront puts what comes before the engine beside it.
func (e *engine) keepFront() error {
	if e.Front == "" {
		return nil
	}
	for _, path := range []string{e.Front, e.Front + externalSuffix} {
		err := os.Link(path, filepath.Join(filepath.Dir(e.file), filepath.Base(path)))
		if err != nil && (path == e.Front || !errors.Is(err, os.ErrNotExist)) {
			return err
		}
	}
	return nil
}

// describe is what a server must know of the engine.
func (e *engine) describe(p trtexec.Platform) layout.Engine {
	return layout.Engine{
		Flavor: e.spec.Flavor, GPU: p.GPU, ComputeCapability: p.ComputeCapability, Driver: p.Driver, TensorRT: p.TensorRT, Precision: e.spec.Precision,
		Inputs: e.model.Inputs, Outputs: e.model.Outputs, MaxBatch: e.maxBatch(), Front: e.model.Front,
	}
}

// maxBatch is the most rows that the engine takes at once; 0 where its first dimensions are not a batch's.
func (e *engine) maxBatch() int64 {
	if e.spec.Shapes == nil {
		return 0
	}
	for _, t := range slices.Concat(e.model.Inputs, e.model.Outputs) {
		if len(t.Shape) == 0 || t.Shape[0] >= 0 {
			return 0
		}
	}
	largest := int64(0)
	for _, dims := range e.spec.Shapes.Max {
		if d := int64(dims[0]); largest == 0 || d < largest {
			largest = d
		}
	}
	return largest
}
