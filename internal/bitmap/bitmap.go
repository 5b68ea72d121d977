// Package bitmap has sets of small numbers. It finds the next number of a set fast.
package bitmap

import "math/bits"

// Bits is a set of numbers, one bit each.
type Bits []uint64

// New returns an empty set for numbers less than size.
func New(size int) Bits { return make(Bits, (size+63)/64) }

// Set adds a number.
func (b Bits) Set(i uint64) { b[i/64] |= 1 << (i % 64) }

// Clear removes a number.
func (b Bits) Clear(i uint64) { b[i/64] &^= 1 << (i % 64) }

// Has reports whether a number is in the set.
func (b Bits) Has(i uint64) bool { return b[i/64]>>(i%64)&1 != 0 }

// Next returns the first number in [from, end), or end if there is none.
func (b Bits) Next(from, end uint64) uint64 {
	for from < end {
		if rest := b[from/64] >> (from % 64); rest != 0 {
			return min(end, from+uint64(bits.TrailingZeros64(rest)))
		}
		from = (from/64 + 1) * 64
	}
	return end
}
