package dsl

import (
	"encoding/json"
	"slices"
	"sync"
	"unsafe"

	"github.com/google/cel-go/common/types/ref"
)

const (
	// largeOutputs is the size, in bytes, from which outputs are decoded once for all steps and instances that read them.
	largeOutputs = 64 << 10
	// maxDecoded bounds the outputs that are kept decoded, in bytes of their JSON.
	maxDecoded = 64 << 20
)

// decoded keeps the values of large outputs, the latest ones. The zero value is ready.
type decoded struct {
	mu   sync.Mutex
	kept []*decodedOutputs
	size int
}

type decodedOutputs struct {
	step  string
	raw   json.RawMessage
	value func() (ref.Val, error)
}

// of returns the value of a step's outputs. raw must not be changed.
func (d *decoded) of(step string, raw json.RawMessage, decode func() (ref.Val, error)) (ref.Val, error) {
	if len(raw) < largeOutputs {
		return decode()
	}
	return d.find(step, raw, decode).value()
}

// find returns what is kept of these outputs. The same ones have the same place in memory, so their content is not compared.
func (d *decoded) find(step string, raw json.RawMessage, decode func() (ref.Val, error)) *decodedOutputs {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := slices.IndexFunc(d.kept, func(k *decodedOutputs) bool {
		return k.step == step && len(k.raw) == len(raw) && unsafe.SliceData(k.raw) == unsafe.SliceData(raw)
	})
	if at >= 0 {
		return d.kept[at]
	}
	d.kept = append(d.kept, &decodedOutputs{step, raw, sync.OnceValues(decode)})
	for d.size += len(raw); d.size > maxDecoded && len(d.kept) > 1; d.kept = d.kept[1:] {
		d.size -= len(d.kept[0].raw)
	}
	return d.kept[len(d.kept)-1]
}
