package oip

import "math"

// Float16 is an element of FP16: 1 bit of sign, 5 of exponent, 10 of fraction (IEEE 754 binary16).
type Float16 uint16

// Float32 returns the value.
func (f Float16) Float32() float32 {
	sign, exponent, fraction := uint32(f)>>15<<31, uint32(f)>>10&0x1f, uint32(f)&0x3ff
	switch exponent {
	case 0: // zero, or a fraction without the leading one
		v := float32(fraction) * 0x1p-24
		return math.Float32frombits(sign | math.Float32bits(v))
	case 0x1f: // infinity, or not a number
		return math.Float32frombits(sign | 0xff<<23 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+127-15)<<23 | fraction<<13)
}

// BFloat16 is an element of BF16: the upper half of a float32.
type BFloat16 uint16

// Float32 returns the value.
func (f BFloat16) Float32() float32 { return math.Float32frombits(uint32(f) << 16) }
