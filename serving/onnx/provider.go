package onnx

import (
	"errors"
	"fmt"
	"strings"

	ort "github.com/yalue/onnxruntime_go"
)

// The execution providers of ONNX Runtime that Options may name.
const (
	CPU      = "cpu"
	CUDA     = "cuda"
	TensorRT = "tensorrt"
)

// addProvider has a session computed by a provider, as far as that can: ONNX Runtime gives each part of a graph to the first provider that
// takes it, and the CPU takes all.
func addProvider(options *ort.SessionOptions, provider string) error {
	var err error
	switch provider {
	case "", CPU:
		return nil
	case TensorRT:
		if err = appendTensorRT(options); err == nil {
			err = appendCUDA(options)
		}
	case CUDA:
		err = appendCUDA(options)
	default:
		return fmt.Errorf("there is no execution provider %q", provider)
	}
	if err != nil {
		return fmt.Errorf("this ONNX Runtime cannot use the execution provider %s: %s; set $%s to a library that has it, on a machine with a GPU,"+
			" or use `provider: cpu`", provider, strings.TrimSpace(err.Error()), LibraryVariable)
	}
	return nil
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
