package pool

// A Feeder collects items for a pool, and hands them over in chunks. So it takes the lock of the pool once for each chunk,
// and only briefly. Owned by one goroutine, the only one that adds items to the pool.
//
// The feeder counts the positions, and the list takes them over.
type Feeder[T comparable] struct {
	pool  *Pool[T]
	chunk *chunk[T] // what was collected and not handed over yet; nil if there is nothing
	next  uint32    // the position of the item that is collected next; wraps around
}

// NewFeeder returns a feeder for a pool.
func NewFeeder[T comparable](p *Pool[T]) Feeder[T] { return Feeder[T]{pool: p} }

// Position returns the position of the item that Add collects next.
func (f *Feeder[T]) Position() uint32 { return f.next }

// Add collects an item, at Position.
func (f *Feeder[T]) Add(item T) {
	if f.chunk == nil {
		f.chunk = f.pool.memory.chunk(f.next)
	}
	f.chunk.put(item)
	f.next++
	if f.chunk.n == chunkLen {
		f.Flush()
	}
}

// Remove removes an item, given its position, unless a runner has taken it. If all items of its chunk have been taken, Remove
// takes no lock. That is usual when a repeating task comes due again. Positions are compared as in list.find.
func (f *Feeder[T]) Remove(item T, pos uint32) {
	if f.chunk != nil && int32(pos-f.chunk.base) >= 0 {
		f.Flush()
	}
	if int32(pos-f.pool.list.gone.Load()) >= 0 {
		f.pool.Remove(item, pos)
	}
}

// Starting is Pool.Starting.
func (f *Feeder[T]) Starting() bool { return f.pool.Starting() }

// Flush hands over what was collected. It does not wait for the tasks.
func (f *Feeder[T]) Flush() {
	if f.chunk != nil {
		f.pool.addChunk(f.chunk)
		f.chunk = nil
	}
}
