package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sluiceml/sluice/serving/oip"
)

// mlp is a model on disk: layers of width×width weights with Relu between them, from x [N, width] to y [N, width].
type mlp struct {
	dir   string // with model.onnx
	width int
}

func (m mlp) file() string { return filepath.Join(m.dir, "model.onnx") }

// row is a request's input.
func (m mlp) row() oip.Tensor {
	data := make([]float32, m.width)
	for i := range data {
		data[i] = float32(i%97) / 97
	}
	return oip.Tensor{Name: "x", Shape: []int64{1, int64(m.width)}, Data: data}
}

// Numbers of onnx.proto.
const (
	float     = 1
	irVersion = 8
	opset     = 17
)

// writeMLP writes a model into a folder of its own.
func writeMLP(dir, name string, layers, width int) (mlp, error) {
	m := mlp{dir: filepath.Join(dir, name), width: width}
	var graph []byte
	from := "x"
	for i := range layers {
		weights, product, to := fmt.Sprintf("w%d", i), fmt.Sprintf("p%d", i), fmt.Sprintf("r%d", i)
		if i == layers-1 {
			to = "y"
		}
		graph = message(graph, 1, node("MatMul", product, from, weights))
		graph = message(graph, 1, node("Relu", to, product))
		graph = message(graph, 5, randomWeights(weights, width))
		from = to
	}
	graph = message(graph, 2, []byte("mlp"))
	graph = message(graph, 11, value("x", width))
	graph = message(graph, 12, value("y", width))
	model := varint(nil, 1, irVersion)
	model = message(model, 7, graph)
	model = message(model, 8, varint(nil, 2, opset))
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		return m, err
	}
	return m, os.WriteFile(m.file(), model, 0o600)
}

func node(op, output string, inputs ...string) []byte {
	var n []byte
	for _, in := range inputs {
		n = message(n, 1, []byte(in))
	}
	n = message(n, 2, []byte(output))
	return message(n, 4, []byte(op))
}

// randomWeights is a tensor of width×width normal numbers, by which the values neither grow nor vanish from layer to layer.
func randomWeights(name string, width int) []byte {
	chance := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // the same model each time
	scale := math.Sqrt(2 / float64(width))
	raw := make([]byte, 0, 4*width*width)
	for range width * width {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(chance.NormFloat64()*scale)))
	}
	t := varint(nil, 1, uint64(width))
	t = varint(t, 1, uint64(width))
	t = varint(t, 2, float)
	t = message(t, 8, []byte(name))
	return message(t, 9, raw)
}

// value describes an input or output of shape [N, width].
func value(name string, width int) []byte {
	shape := message(nil, 1, message(nil, 2, []byte("N")))
	shape = message(shape, 1, varint(nil, 1, uint64(width)))
	tensor := message(varint(nil, 1, float), 2, shape)
	return message(message(nil, 1, []byte(name)), 2, message(nil, 1, tensor))
}

func varint(to []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(to, field, protowire.VarintType), v)
}

func message(to []byte, field protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(to, field, protowire.BytesType), v)
}
