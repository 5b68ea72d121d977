package explore

import (
	"sync/atomic"
	"unsafe"
)

// The types of sync/atomic, with a gate before each operation.
type (
	Int32  = integer[int32]
	Int64  = integer[int64]
	Uint32 = integer[uint32]
	Uint64 = integer[uint64]
)

// An integer stands in for a number of sync/atomic. BlindAdd stands in for an Add whose result is not used. CyclicAdd
// stands in for an Add whose result matters only at multiples of a number that no scenario reaches. So two of these
// commute.
type integer[T int32 | int64 | uint32 | uint64] struct{ v atomic.Uint64 }

func (x *integer[T]) Load() T         { gate("Load", load, x); return x.Peek() }
func (x *integer[T]) Store(v T)       { gate("Store", write, x); x.v.Store(uint64(v)) }
func (x *integer[T]) Swap(v T) T      { gate("Swap", write, x); return T(x.v.Swap(uint64(v))) }
func (x *integer[T]) Add(d T) T       { gate("Add", write, x); return T(x.v.Add(uint64(d))) }
func (x *integer[T]) BlindAdd(d T)    { gate("Add", add, x); x.v.Add(uint64(d)) }
func (x *integer[T]) CyclicAdd(d T) T { gate("Add", add, x); return T(x.v.Add(uint64(d))) }
func (x *integer[T]) And(mask T) T    { gate("And", write, x); return T(x.v.And(uint64(mask))) }
func (x *integer[T]) Or(mask T) T     { gate("Or", write, x); return T(x.v.Or(uint64(mask))) }
func (x *integer[T]) CompareAndSwap(old, new T) bool {
	gateSwap(x, func() bool { return x.Peek() == old })
	for word := x.v.Load(); T(word) == old; word = x.v.Load() { // above the bits of T there may be a carry
		if x.v.CompareAndSwap(word, uint64(new)) {
			return true
		}
	}
	return false
}

// Peek is Load without a gate, for checks.
func (x *integer[T]) Peek() T { return T(x.v.Load()) }

// A Bool stands in for atomic.Bool.
type Bool struct{ v atomic.Bool }

func (x *Bool) Load() bool       { gate("Load", load, x); return x.v.Load() }
func (x *Bool) Store(v bool)     { gate("Store", write, x); x.v.Store(v) }
func (x *Bool) Swap(v bool) bool { gate("Swap", write, x); return x.v.Swap(v) }
func (x *Bool) CompareAndSwap(old, new bool) bool {
	gateSwap(x, func() bool { return x.v.Load() == old })
	return x.v.CompareAndSwap(old, new)
}

// A Pointer stands in for atomic.Pointer.
type Pointer[T any] struct{ v atomic.Pointer[T] }

func (x *Pointer[T]) Load() *T     { gate("Load", load, x); return x.v.Load() }
func (x *Pointer[T]) Store(v *T)   { gate("Store", write, x); x.v.Store(v) }
func (x *Pointer[T]) Swap(v *T) *T { gate("Swap", write, x); return x.v.Swap(v) }
func (x *Pointer[T]) CompareAndSwap(old, new *T) bool {
	gateSwap(x, func() bool { return x.v.Load() == old })
	return x.v.CompareAndSwap(old, new)
}

// gate stops the goroutine before an operation on one address, if an exploration is going on.
func gate[T any](kind string, access access, x *T) {
	if r := active.Load(); r != nil {
		r.stop(op{kind: kind}, touching{unsafe.Pointer(x), access})
	}
}

// gateSwap is gate for a compare-and-swap, which writes only if it succeeds.
func gateSwap[T any](x *T, succeeds func() bool) {
	if r := active.Load(); r != nil {
		r.stop(op{kind: "CompareAndSwap", succeeds: succeeds}, touching{unsafe.Pointer(x), write})
	}
}
