package explore

import (
	"sync/atomic"
	"unsafe"
)

// The types of sync/atomic, with a gate before each operation. BlindAdd stands in for an Add whose
// result is not used. CyclicAdd stands in for an Add whose result matters only at multiples of a
// number that no scenario reaches. So two of these commute.

// A Bool stands in for atomic.Bool.
type Bool struct{ v atomic.Bool }

func (x *Bool) Load() bool       { gate("Load", load, x); return x.v.Load() }
func (x *Bool) Store(v bool)     { gate("Store", write, x); x.v.Store(v) }
func (x *Bool) Swap(v bool) bool { gate("Swap", write, x); return x.v.Swap(v) }
func (x *Bool) CompareAndSwap(old, new bool) bool {
	gateSwap(x, func() bool { return x.v.Load() == old })
	return x.v.CompareAndSwap(old, new)
}

// An Int32 stands in for atomic.Int32.
type Int32 struct{ v atomic.Int32 }

func (x *Int32) Load() int32        { gate("Load", load, x); return x.v.Load() }
func (x *Int32) Store(v int32)      { gate("Store", write, x); x.v.Store(v) }
func (x *Int32) Swap(v int32) int32 { gate("Swap", write, x); return x.v.Swap(v) }
func (x *Int32) Add(d int32) int32  { gate("Add", write, x); return x.v.Add(d) }
func (x *Int32) BlindAdd(d int32)   { gate("Add", add, x); x.v.Add(d) }
func (x *Int32) CompareAndSwap(old, new int32) bool {
	gateSwap(x, func() bool { return x.v.Load() == old })
	return x.v.CompareAndSwap(old, new)
}

// An Int64 stands in for atomic.Int64.
type Int64 struct{ v atomic.Int64 }

func (x *Int64) Load() int64        { gate("Load", load, x); return x.v.Load() }
func (x *Int64) Store(v int64)      { gate("Store", write, x); x.v.Store(v) }
func (x *Int64) Swap(v int64) int64 { gate("Swap", write, x); return x.v.Swap(v) }
func (x *Int64) Add(d int64) int64  { gate("Add", write, x); return x.v.Add(d) }
func (x *Int64) BlindAdd(d int64)   { gate("Add", add, x); x.v.Add(d) }
func (x *Int64) CompareAndSwap(old, new int64) bool {
	gateSwap(x, func() bool { return x.v.Load() == old })
	return x.v.CompareAndSwap(old, new)
}

// A Uint32 stands in for atomic.Uint32.
type Uint32 struct{ v atomic.Uint32 }

func (x *Uint32) Load() uint32         { gate("Load", load, x); return x.v.Load() }
func (x *Uint32) Store(v uint32)       { gate("Store", write, x); x.v.Store(v) }
func (x *Uint32) Swap(v uint32) uint32 { gate("Swap", write, x); return x.v.Swap(v) }
func (x *Uint32) Add(d uint32) uint32  { gate("Add", write, x); return x.v.Add(d) }
func (x *Uint32) BlindAdd(d uint32)    { gate("Add", add, x); x.v.Add(d) }
func (x *Uint32) CompareAndSwap(old, new uint32) bool {
	gateSwap(x, func() bool { return x.v.Load() == old })
	return x.v.CompareAndSwap(old, new)
}

// A Uint64 stands in for atomic.Uint64.
type Uint64 struct{ v atomic.Uint64 }

func (x *Uint64) Load() uint64              { gate("Load", load, x); return x.v.Load() }
func (x *Uint64) Store(v uint64)            { gate("Store", write, x); x.v.Store(v) }
func (x *Uint64) Swap(v uint64) uint64      { gate("Swap", write, x); return x.v.Swap(v) }
func (x *Uint64) Add(d uint64) uint64       { gate("Add", write, x); return x.v.Add(d) }
func (x *Uint64) BlindAdd(d uint64)         { gate("Add", add, x); x.v.Add(d) }
func (x *Uint64) CyclicAdd(d uint64) uint64 { gate("Add", add, x); return x.v.Add(d) }
func (x *Uint64) And(mask uint64) uint64    { gate("And", write, x); return x.v.And(mask) }
func (x *Uint64) Or(mask uint64) uint64     { gate("Or", write, x); return x.v.Or(mask) }
func (x *Uint64) CompareAndSwap(old, new uint64) bool {
	gateSwap(x, func() bool { return x.v.Load() == old })
	return x.v.CompareAndSwap(old, new)
}

// Peek is Load without a gate, for checks.
func (x *Uint64) Peek() uint64 { return x.v.Load() }

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
