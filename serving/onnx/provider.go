package onnx

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	ort "github.com/yalue/onnxruntime_go"
)

// The execution providers of ONNX Runtime that Options may name.
const (
	CPU         = "cpu"
	CUDA        = "cuda"
	TensorRT    = "tensorrt"
	TensorRTRTX = "tensorrt_rtx"
)

// needed is what a provider needs that is not there.
var needed = map[string]string{
	CUDA:        builtIn,
	TensorRT:    builtIn,
	TensorRTRTX: "it needs the Python package " + rtxPackage + ", and a machine with an NVIDIA GPU and its driver (libcuda.so.1)",
}

const builtIn = "set $" + LibraryVariable + " to a library that has it, on a machine with a GPU and with NVIDIA's libraries in LD_LIBRARY_PATH"

// firstOf returns what the first of some providers makes of a model, which provider that is, and why those before it were not. When none can, the error
// says why of each.
func firstOf[T any](providers []string, use func(provider string) (T, error)) (made T, taken string, refused error, err error) {
	if len(providers) == 0 {
		providers = []string{CPU}
	}
	var why []string
	for _, provider := range providers {
		if made, err = use(provider); err == nil {
			if len(why) > 0 {
				refused = errors.New(strings.Join(why, "; "))
			}
			return made, provider, refused, nil
		}
		why = append(why, err.Error())
	}
	if !slices.Contains(providers, CPU) {
		err = fmt.Errorf("%s; or let the CPU stand in: `provider: [%s, cpu]`", strings.Join(why, "; "), strings.Join(providers, ", "))
	} else if len(why) > 1 {
		err = errors.New(strings.Join(why, "; "))
	}
	return made, "", nil, err
}

// addProvider has a session computed by a provider, as far as that can: ONNX Runtime gives each part of a graph to the first provider that
// takes it, and the CPU takes all.
func addProvider(options *ort.SessionOptions, provider string) error {
	var err error
	switch provider {
	case CPU:
		return nil
	case TensorRT:
		if err = appendTensorRT(options); err == nil {
			err = appendCUDA(options)
		}
	case CUDA:
		err = appendCUDA(options)
	default:
		find, ok := plugins[provider]
		if !ok {
			return fmt.Errorf("there is no execution provider %q", provider)
		}
		var p plugin
		if p, err = find(); err == nil {
			err = p.appendTo(options)
		}
	}
	return cannotUse(provider, err)
}

// cannotUse says of an error that a provider is the reason, and what that needs; nil for none.
func cannotUse(provider string, err error) error {
	if err == nil || provider == CPU {
		return err
	}
	return fmt.Errorf("this ONNX Runtime cannot use the execution provider %s: %s; %s", provider, strings.TrimRight(err.Error(), ". "), needed[provider])
}

// identity is a model that returns its input: a provider that is there loads it.
var identity = varint(1, 8) + field(8, varint(2, 13)) + field(modelGraph, field(2, "identity")+
	field(graphNode, field(nodeInput, "x")+field(nodeOutput, "y")+field(nodeType, "Identity"))+
	field(11, aFloat("x"))+field(graphOutput, aFloat("y")))

// aFloat describes an input or an output of one number.
func aFloat(name string) string {
	return field(1, name) + field(2, field(1, varint(1, 1)+field(2, field(1, varint(1, 1)))))
}

// CheckProviders returns why none of some providers can be used in this process, on this machine; nil if one can.
func CheckProviders(providers []string) error {
	if len(providers) == 0 || slices.Contains(providers, CPU) {
		return nil
	}
	if err := initialize(); err != nil {
		return err
	}
	_, _, _, err := firstOf(providers, func(provider string) (struct{}, error) {
		options, err := sessionOptions(ort.GraphOptimizationLevelDisableAll, 1, provider)
		if err != nil {
			return struct{}{}, err
		}
		defer func() { _ = options.Destroy() }() // fails only when called twice
		session, err := ort.NewDynamicAdvancedSessionWithONNXData([]byte(identity), []string{"x"}, []string{"y"}, options)
		if err == nil {
			err = session.Destroy()
		}
		return struct{}{}, cannotUse(provider, err)
	})
	return err
}

func appendCUDA(options *ort.SessionOptions) error {
	cuda, err := ort.NewCUDAProviderOptions()
	if err != nil {
		return err
	}
	return errors.Join(options.AppendExecutionProviderCUDA(cuda), cuda.Destroy())
}

func appendTensorRT(options *ort.SessionOptions) error {
	trt, err := ort.NewTensorRTProviderOptions()
	if err != nil {
		return err
	}
	return errors.Join(options.AppendExecutionProviderTensorRT(trt), trt.Destroy())
}
