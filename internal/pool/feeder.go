package pool

// A Feeder collects items for a pool, and hands them over in chunks. So it seldom takes the lock of the pool, and
// holds it for a moment only. Owned by one goroutine, the only one that adds items to the pool.
type Feeder[T comparable] struct {
	pool   *Pool[T]
	chunk  *chunk[T] // nil, or what was collected and not handed over yet
	next   uint32    // the position of the item that is collected next; wraps around
	handed int       // how many chunks were handed over since the last flush, at most maxReady
}

// maxReady bounds for how many chunks in a row a pool is prepared. For each it keeps two spare chunks.
const maxReady = maxSpare / 2

// NewFeeder returns a feeder for a pool.
func NewFeeder[T comparable](p *Pool[T]) Feeder[T] { return Feeder[T]{pool: p} }

// Position returns the position of the item that Add collects next.
func (f *Feeder[T]) Position() uint32 { return f.next }

// Add collects an item, at Position.
func (f *Feeder[T]) Add(item T) {
	if f.chunk == nil {
		f.chunk = new(chunk[T])
	}
	k := f.chunk
	if k.n == 0 {
		k.reset(f.next)
	}
	k.put(item)
	f.next++
	if k.end == chunkLen {
		f.handOver()
	}
}

// Remove removes an item, given its position, unless a runner has taken it.
func (f *Feeder[T]) Remove(item T, pos uint32) {
	f.Flush() // because it may be here
	f.pool.Remove(item, pos)
}

// Starting reports what Pool.Starting does.
func (f *Feeder[T]) Starting() bool { return f.pool.Starting() }

// Flush hands over what was collected. It does not wait for the tasks. After that it prepares the pool: as many items
// can be collected and handed over again without an allocation.
func (f *Feeder[T]) Flush() {
	if f.chunk != nil && f.chunk.n > 0 {
		f.handOver()
	}
	if f.handed == 0 {
		return
	}
	f.pool.prepare(f.handed)
	if f.chunk == nil {
		f.chunk = new(chunk[T])
	}
	f.handed = 0
}

// handOver hands over the chunk, which must not be empty.
func (f *Feeder[T]) handOver() {
	f.chunk = f.pool.addChunk(f.chunk)
	f.handed = min(f.handed+1, maxReady)
}

// Trim frees the memory that the feeder and its pool keep for reuse: see Pool.Trim.
func (f *Feeder[T]) Trim() {
	if f.chunk != nil && f.chunk.n == 0 {
		f.chunk = nil
	}
	f.pool.Trim()
}
