// Package seat spreads goroutines over the parts of a structure, such as the stripes of a queue. A goroutine mostly uses the
// same part, which stays in the cache of its processor. After a collision with another it moves on to a different one. Stripes
// without seats are slower than a single queue: benchmarks/tried.md has the figures.
package seat

import (
	"sync/atomic"
	"unsafe"
)

const seatBits = 12

// A Table has the seats. One or more goroutines use each of them, and it counts how often these have moved on. With a nil
// Table all goroutines use part 0.
type Table [1 << seatBits]atomic.Uint32

// All is the table of the whole program: a goroutine has the same seat with every timer.
var All Table

// Part returns which of n parts, a power of two, the calling goroutine should use now.
func (t *Table) Part(n int) int {
	if t == nil {
		return 0
	}
	return t.part(here(), n)
}

// Move moves the caller's seat to another part after a collision. Call it where Part was called.
func (t *Table) Move() {
	if t != nil {
		t[here().seat()].Add(1)
	}
}

// part returns the part for a spot. Its step is odd, so that moves lead to every part. Two spots with the same seat
// usually have different steps, so that moves separate them.
func (t *Table) part(sp spot, n int) int {
	step := int(sp>>32)&0xfff | 1
	return (sp.seat() + step*int(t[sp.seat()].Load())) & (n - 1)
}

// A spot identifies a goroutine by a hash of the address of its stack. It is most often the same each time.
type spot uint64

func here() spot {
	var local byte
	return spotAt(uintptr(unsafe.Pointer(&local)))
}

// spotAt uses Fibonacci hashing: Knuth, The Art of Computer Programming, volume 3, section 6.4.
func spotAt(address uintptr) spot {
	const stackShift = 11
	return spot(uint64(address>>stackShift) * 0x9E3779B97F4A7C15)
}

// seat returns an index in a Table: the upper bits of the spot.
func (sp spot) seat() int { return int(sp >> (64 - seatBits)) }
