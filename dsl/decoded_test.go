package dsl

import (
	"bytes"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// Large outputs are decoded once for all that read them at the same time, until newer ones take their place.
func TestDecodedOnce(t *testing.T) {
	var d decoded
	var count atomic.Int64
	decode := func() (ref.Val, error) { return types.Int(count.Add(1)), nil }
	outputs := func(size int) []byte { return bytes.Repeat([]byte{' '}, size) }
	expect := func(why string, raw []byte, want int64) {
		t.Helper()
		if v, err := d.of("step", raw, decode); err != nil || v != types.Int(want) {
			t.Errorf("%s: %v, %v; want %d", why, v, err, want)
		}
	}
	small, large := outputs(largeOutputs-1), outputs(largeOutputs)
	expect("small ones", small, 1)
	expect("small ones again", small, 2)
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			if v, err := d.of("step", large, decode); err != nil || v != types.Int(3) {
				t.Errorf("at the same time: %v, %v; want 3", v, err)
			}
		})
	}
	group.Wait()
	if v, _ := d.of("another", large, decode); v != types.Int(4) {
		t.Errorf("another step with the same outputs: %v, want 4", v)
	}
	expect("equal ones of another run", outputs(largeOutputs), 5)
	expect("others do not displace them", large, 3)
	expect("the largest", outputs(maxDecoded), 6)
	expect("they have been displaced", large, 7)
	if d.size > maxDecoded+largeOutputs || len(d.kept) > 2 {
		t.Errorf("%d bytes of %d outputs are kept", d.size, len(d.kept))
	}
}
