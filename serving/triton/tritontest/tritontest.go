// Package tritontest starts NVIDIA's Triton Inference Server for tests, and reads what is written for it.
//
// Two things of it stand for parts that cannot be had. Descriptions of models are read by Triton's own messages, which model_config.proto
// repeats: a Triton would say nothing of a field that means something else than was meant. And Load stands for the pods of an
// InferenceService, whose images cannot be had: it loads models as their descriptions say.
package tritontest

import (
	_ "embed"
	"encoding/json"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

//go:embed model_config.binpb
var descriptors []byte

// Message is a config.pbtxt as a message.
func Message(text []byte) (proto.Message, error) {
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(descriptors, &set); err != nil {
		return nil, err
	}
	files, err := protodesc.NewFiles(&set)
	if err != nil {
		return nil, err
	}
	config, err := files.FindDescriptorByName("sluice.triton.ModelConfig")
	if err != nil {
		return nil, err
	}
	message := dynamicpb.NewMessage(config.(protoreflect.MessageDescriptor))
	return message, prototext.Unmarshal(text, message)
}

// Config is what a config.pbtxt says.
type Config struct {
	Name                 string
	Platform             string
	MaxBatchSize         int64 // 0 for a model whose first dimension is not a batch's
	DefaultModelFilename string
	Input, Output        []Tensor
	EnsembleScheduling   struct{ Step []Step }
}

// Tensor is an input or an output, without the batch's dimension where MaxBatchSize is set.
type Tensor struct {
	Name     string
	DataType string
	Dims     []json.Number
}

// Step is a model of an ensemble. The maps are from its tensors' names to the ensemble's.
type Step struct {
	ModelName           string
	InputMap, OutputMap map[string]string
}

// Parse reads a config.pbtxt.
func Parse(text []byte) (*Config, error) {
	message, err := Message(text)
	if err != nil {
		return nil, err
	}
	raw, err := protojson.Marshal(message)
	if err != nil {
		return nil, err
	}
	config := &Config{}
	return config, json.Unmarshal(raw, config)
}
