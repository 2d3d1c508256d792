package onnx

import (
	"errors"
	"io"
	"os"

	ort "github.com/yalue/onnxruntime_go"
	"google.golang.org/protobuf/encoding/protowire"
)

// Numbers of the fields of ONNX's messages, and the type of 64-bit integers.
const (
	modelGraph                                     = 7
	graphNode, graphInitializer, graphOutput       = 1, 5, 12
	nodeInput, nodeOutput, nodeType, nodeAttribute = 1, 2, 4, 5
	attributeName, attributeInt, attributeType     = 1, 3, 20
	tensorDims, tensorType, tensorInts, tensorName = 1, 2, 7, 8
	typeInt64, attributeTypeInt                    = 7, 2
)

// dimension is the suffix of the name of an output with one more dimension, of size 1.
const dimension = "/sluice/dimension"

// withDimension writes the model file anew, beside the old one, so that outputs get one more dimension at their end: the Go binding cannot take
// an output of no dimensions from ONNX Runtime. What stands behind a message in a file is merged with it, so the nodes are appended.
func withDimension(path string, outputs []ort.InputOutputInfo) (_ string, err error) {
	from, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = from.Close() }() // only read from
	to, err := os.Create(path + ".with-dimension")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	if _, err := io.Copy(to, from); err != nil {
		return "", err
	}
	one := varint(tensorDims, 1) + varint(tensorType, typeInt64) + field(tensorInts, "\x01") + field(tensorName, dimension)
	graph := field(graphInitializer, one)
	for _, o := range outputs {
		shape, longer := o.Name+dimension+"/shape", o.Name+dimension+"/longer"
		axis := field(nodeAttribute, field(attributeName, "axis")+varint(attributeInt, 0)+varint(attributeType, attributeTypeInt))
		graph += field(graphNode, field(nodeType, "Shape")+field(nodeInput, o.Name)+field(nodeOutput, shape)) +
			field(graphNode, field(nodeType, "Concat")+field(nodeInput, shape)+field(nodeInput, dimension)+field(nodeOutput, longer)+axis) +
			field(graphNode, field(nodeType, "Reshape")+field(nodeInput, o.Name)+field(nodeInput, longer)+field(nodeOutput, o.Name+dimension)) +
			field(graphOutput, field(1, o.Name+dimension)) // its type is inferred
	}
	_, err = to.WriteString(field(modelGraph, graph))
	return to.Name(), err
}

func field(number protowire.Number, value string) string {
	return string(protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), value))
}

func varint(number protowire.Number, value uint64) string {
	return string(protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.VarintType), value))
}
