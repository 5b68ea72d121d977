package hashedwheel

import (
	"sync"
	"sync/atomic"
)

// batchSize is the largest number of due timeouts handed over at once. It bounds how much a growing
// batch copies, and runners begin with a full batch while the worker collects more timeouts.
const batchSize = 1 << 10

// A batch holds timeouts that have come due, most often together. One goroutine fills it and adds it to the
// runners' list. Then runners take timeouts by moving the cursor, and take a whole group at a time from a
// large batch. So another runner can always take the timeouts behind a task that blocks: the rest of the
// batch at once, and the rest of the group when the worker gives it back, see rescue.go.
type batch struct {
	// Owned by the goroutine that fills it until it is listed. Then, until a runner has begun it, more may
	// be added with runners.mu held. An entry belongs to the goroutine that takes it, which clears it.
	due   []*Timeout
	tick  uint64 // the tick of the wheel when the last timeout was handed over: none was due later
	since uint64 // the tick of the wheel when the first timeout was handed over

	cursor atomic.Int64 // the index of the first timeout that no goroutine has taken

	// Guarded by runners.mu.
	begun   bool // a runner has taken from it, or is about to
	listed  bool // it is in runners.batches
	single  bool // runners take one timeout at a time, because the worker might not check whether they are stuck
	holders int  // runners that may still read it; it must not be reused before they let go
}

// batchPool holds unused batches, so that a run allocates nothing.
var batchPool sync.Pool

// newBatch returns an empty batch, which the caller owns until it is listed.
func newBatch() *batch {
	if b, ok := batchPool.Get().(*batch); ok {
		return b
	}
	return new(batch)
}

// recycle puts a batch back in the pool if nothing else refers to it any more. All its timeouts must have
// been taken, and cleared by the goroutines that took them. Called with runners.mu held.
func (b *batch) recycle() {
	if b.listed || b.holders > 0 {
		return
	}
	b.due, b.begun, b.single = b.due[:0], false, false
	b.cursor.Store(0)
	batchPool.Put(b)
}

// take returns the next n timeouts, or as many as are left. The caller must clear them in the slice.
func (b *batch) take(n int) []*Timeout {
	end, left := b.cursor.Add(int64(n)), int64(len(b.due)) // from here on the caller owns the n before end
	return b.due[min(end-int64(n), left):min(end, left)]
}

// takeRest returns all timeouts that are left. The caller must clear them in the slice, and must hold
// runners.mu or be a holder.
func (b *batch) takeRest() []*Timeout {
	i := b.cursor.Swap(int64(len(b.due))) // from here on the caller owns b.due[i:]
	return b.due[min(i, int64(len(b.due))):]
}

// left returns the number of timeouts that no goroutine has taken.
func (b *batch) left() int { return max(0, len(b.due)-int(b.cursor.Load())) }
