package onnx

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/sluiceml/sluice/serving/oip"
)

// ErrClosed is returned by Run after Close.
var ErrClosed = errors.New("the model has been unloaded")

// slots bounds how many inferences run at once in the whole process: each holds an operating system thread, and more of them than
// processors would only wait for each other.
var slots = make(chan struct{}, runtime.GOMAXPROCS(0))

// Session is one loaded model. Its methods may be called from many goroutines.
type Session struct {
	mu      sync.RWMutex // held for reading during Run, for writing by Close
	session *ort.DynamicAdvancedSession
	inputs  []oip.TensorMetadata
	outputs []oip.TensorMetadata

	provider string
	refused  error
}

// ModelFile returns the single *.onnx file in dir, at any depth.
func ModelFile(dir string) (string, error) {
	var found []string
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() && strings.HasSuffix(path, ".onnx") {
			found = append(found, path)
		}
		return err
	})
	switch {
	case err != nil:
		return "", fmt.Errorf("look for a model: %w", err)
	case len(found) == 0:
		return "", errors.New("the model artifact has no .onnx file")
	case len(found) > 1:
		return "", fmt.Errorf("the model artifact has %d .onnx files, %s and %s among them; it must have one",
			len(found), filepath.Base(found[0]), filepath.Base(found[1]))
	}
	return found[0], nil
}

// Options say how a model is computed.
type Options struct {
	// Threads of each inference on the CPU; several inferences share them. Default 1.
	Threads int
	// Providers of which the first that loads the model computes it. Default: CPU.
	Providers []string
}

// Open loads the model file at path, to be computed by one thread of the CPU.
func Open(path string) (*Session, error) { return OpenWith(path, Options{}) }

// OpenWith is Open with options.
func OpenWith(path string, o Options) (*Session, error) {
	return load(path, ort.GraphOptimizationLevelEnableAll, o)
}

// OpenAsWritten loads the model file at path and computes it operator by operator, as its graph says: without fused kernels, of which
// those for 8 bits overflow on some processors.
func OpenAsWritten(path string) (*Session, error) {
	return load(path, ort.GraphOptimizationLevelDisableAll, Options{})
}

func load(path string, level ort.GraphOptimizationLevel, o Options) (*Session, error) {
	if err := initialize(); err != nil {
		return nil, err
	}
	s, err := open(path, level, o)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", filepath.Base(path), err)
	}
	return s, nil
}

func open(path string, level ort.GraphOptimizationLevel, o Options) (*Session, error) {
	inputs, outputs, err := describe(path)
	if err != nil {
		return nil, err
	}
	s := &Session{}
	inputNames, outputNames := make([]string, len(inputs)), make([]string, len(outputs))
	if s.inputs, err = metadata(inputs, inputNames); err != nil {
		return nil, err
	}
	if s.outputs, err = metadata(outputs, outputNames); err != nil {
		return nil, err
	}
	if err := halvesFit(s.outputs); err != nil {
		return nil, err
	}
	var open []ort.InputOutputInfo
	for i, o := range s.outputs {
		if len(o.Shape) == 0 { // it has no dimensions, or says nothing of them
			open, outputNames[i] = append(open, outputs[i]), o.Name+dimension
		}
	}
	if len(open) > 0 {
		if path, err = withDimension(path, open); err != nil {
			return nil, err
		}
		defer func() { _ = os.Remove(path) }() // what stays goes with its folder
	}
	s.session, s.provider, s.refused, err = firstOf(o.Providers, func(provider string) (*ort.DynamicAdvancedSession, error) {
		options, err := sessionOptions(level, o.Threads, provider)
		if err != nil {
			return nil, err
		}
		defer func() { _ = options.Destroy() }() // fails only when called twice
		session, err := ort.NewDynamicAdvancedSession(path, inputNames, outputNames, options)
		if err != nil && provider != CPU {
			err = fmt.Errorf("the execution provider %s cannot load it: %w", provider, err)
		}
		return session, err
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// describe reads the inputs and outputs of a model file. ONNX Runtime tells them of a session only, so one is made for it, as cheaply
// as can be.
func describe(path string) (inputs, outputs []ort.InputOutputInfo, err error) {
	options, err := sessionOptions(ort.GraphOptimizationLevelDisableAll, 1, CPU)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = options.Destroy() }()
	return ort.GetInputOutputInfoWithOptions(path, options)
}

func sessionOptions(level ort.GraphOptimizationLevel, threads int, provider string) (*ort.SessionOptions, error) {
	options, err := ort.NewSessionOptions()
	if err != nil {
		return nil, err
	}
	err = errors.Join(
		options.SetIntraOpNumThreads(max(threads, 1)), options.SetInterOpNumThreads(1), options.SetGraphOptimizationLevel(level),
		options.AddSessionConfigEntry("session.intra_op.allow_spinning", "0"), // threads that wait would take the time of other requests
	)
	if err == nil {
		err = addProvider(options, provider)
	}
	if err != nil {
		return nil, errors.Join(err, options.Destroy())
	}
	return options, nil
}

// Provider is what computes the session, of the Options' Providers, and why those before it do not; nil for the first one.
func (s *Session) Provider() (name string, refused error) { return s.provider, s.refused }

// Inputs describes the inputs in the graph's order. The result must not be changed.
func (s *Session) Inputs() []oip.TensorMetadata { return s.inputs }

// Outputs describes the outputs in the graph's order. The result must not be changed.
func (s *Session) Outputs() []oip.TensorMetadata { return s.outputs }

// Infer is Check and Run.
func (s *Session) Infer(ctx context.Context, inputs []oip.Tensor) ([]oip.Tensor, error) {
	ordered, err := s.Check(inputs)
	if err != nil {
		return nil, err
	}
	return s.Run(ctx, ordered)
}

// Check returns one value of each input, given in any order, in the graph's order. Inputs that do not fit the model are an oip.Error with
// status 400.
func (s *Session) Check(inputs []oip.Tensor) ([]oip.Tensor, error) {
	ordered, err := oip.Match(s.inputs, inputs)
	if err != nil {
		return nil, err
	}
	for _, t := range ordered {
		texts, _ := t.Data.([]string)
		for _, text := range texts {
			if strings.IndexByte(text, 0) >= 0 { // ONNX Runtime's strings end at a zero byte: the rest would be lost
				return nil, oip.Invalid("input %q: a string contains a NUL byte", t.Name)
			}
		}
	}
	return ordered, nil
}

// Run runs the model on inputs that Check returned, and returns all outputs in the graph's order. When ctx ends, the inference is stopped
// and ctx's cause returned.
func (s *Session) Run(ctx context.Context, inputs []oip.Tensor) ([]oip.Tensor, error) {
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.session == nil {
		return nil, ErrClosed
	}
	return s.run(ctx, inputs)
}

// run is Run of a session that is open.
func (s *Session) run(ctx context.Context, inputs []oip.Tensor) ([]oip.Tensor, error) {
	in := make([]ort.Value, 0, len(inputs))
	out := make([]ort.Value, len(s.outputs))
	defer func() { destroy(in); destroy(out) }()
	for i, t := range inputs {
		v, err := elements[s.inputs[i].Datatype].write(ort.Shape(t.Shape), t.Data)
		if err != nil {
			return nil, oip.Invalid("input %q: %v", t.Name, err)
		}
		in = append(in, v)
	}
	if err := makeHalves(out, s.outputs, inputs); err != nil {
		return nil, err
	}
	options, err := ort.NewRunOptions()
	if err != nil {
		return nil, err
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		_ = options.Terminate() // fails only on options that were destroyed, which waits for this
	})
	err = s.session.RunWithOptions(in, out, options)
	if !stop() {
		<-stopped
	}
	_ = options.Destroy()
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("inference failed: %w", err)
	}
	outputs := make([]oip.Tensor, len(out))
	for i, v := range out {
		data, err := elements[s.outputs[i].Datatype].read(v)
		if err != nil {
			return nil, fmt.Errorf("output %q: %w", s.outputs[i].Name, err)
		}
		outputs[i] = oip.Tensor{Name: s.outputs[i].Name, Shape: v.GetShape(), Data: data}
		if len(s.outputs[i].Shape) == 0 {
			outputs[i].Shape = outputs[i].Shape[:len(outputs[i].Shape)-1] // see withDimension
		}
	}
	return outputs, nil
}

// Close unloads the model after the inferences under way have ended. Closing twice is no error.
func (s *Session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == nil {
		return nil
	}
	session := s.session
	s.session = nil
	return session.Destroy()
}
