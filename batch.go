package hashedwheel

import (
	"sync"
	"sync/atomic"
)

// batchSize is the largest number of due timeouts handed over at once. It bounds what a batch that
// has grown copies, and lets runners begin while the worker collects the rest.
const batchSize = 1 << 10

// A batch holds timeouts that came due together. One goroutine fills it and adds it to the runners.
// From there on they take timeouts by moving the cursor, a group at a time from a large batch. So what is
// behind a task that blocks can always be taken by another runner: the rest of the batch at once, and the
// rest of the group when the worker gives it back, see rescue.go.
type batch struct {
	// Owned by the goroutine that fills it, and immutable once it is listed, except that an entry
	// is owned, and cleared, by the goroutine that takes it.
	due   []*Timeout
	tick  uint64 // the wheel's when the last of them was handed over: none was due later
	since uint64 // the same for the first of them

	cursor atomic.Int64 // index of the first that nobody has taken

	// Guarded by runners.mu.
	begun   bool // a runner has had it
	listed  bool // in runners.batches
	single  bool // runners take one at a time, because tasks may block and the worker may not be looking
	holders int  // runners that may still look at it: it must not be used again meanwhile
}

// batchPool keeps batches for the next ones, so that a run allocates nothing.
var batchPool sync.Pool

// newBatch returns an empty batch, which is the caller's until it is listed.
func newBatch() *batch {
	if b, ok := batchPool.Get().(*batch); ok {
		return b
	}
	return new(batch)
}

// recycle keeps a batch for the next ones, if nobody else knows it any more. All that was in it has been
// taken, and forgotten by the goroutine that took it. Called with runners.mu held.
func (b *batch) recycle() {
	if b.listed || b.holders > 0 {
		return
	}
	b.due, b.begun, b.single = b.due[:0], false, false
	b.cursor.Store(0)
	batchPool.Put(b)
}

// take returns the next n timeouts, or as many as are left. The caller has to forget them.
func (b *batch) take(n int) []*Timeout {
	end, left := b.cursor.Add(int64(n)), int64(len(b.due)) // those before end are the caller's from here
	return b.due[min(end-int64(n), left):min(end, left)]
}

// takeRest returns all that are left. The caller has to forget them, and must hold runners.mu or be
// a holder.
func (b *batch) takeRest() []*Timeout {
	i := b.cursor.Swap(int64(len(b.due))) // b.due[i:] is the caller's from here
	return b.due[min(i, int64(len(b.due))):]
}

// left returns the number of those that nobody has taken.
func (b *batch) left() int { return max(0, len(b.due)-int(b.cursor.Load())) }
