package crew

// A Feeder collects items for a crew, and hands them over in chunks. So it seldom takes the lock of the crew, and
// holds it for a moment only. Owned by one goroutine, the only one that adds items to the crew.
type Feeder[T comparable] struct {
	crew  *Crew[T]
	chunk *chunk[T] // nil, or what was collected since the last flush
	next  uint32    // the position of the item that is collected next; wraps around
}

// NewFeeder returns a feeder for a crew.
func NewFeeder[T comparable](c *Crew[T]) Feeder[T] { return Feeder[T]{crew: c} }

// Position returns the position of the item that Add collects next.
func (f *Feeder[T]) Position() uint32 { return f.next }

// Add collects an item, at Position.
func (f *Feeder[T]) Add(item T) {
	if f.chunk == nil {
		f.chunk = new(chunk[T])
	}
	k := f.chunk
	if k.n == 0 {
		k.base, k.from, k.end = f.next, 0, 0
	}
	k.put(item)
	f.next++
	if k.end == chunkLen {
		f.Flush()
	}
}

// Has reports whether an item with this position was collected since the last flush.
func (f *Feeder[T]) Has(pos uint32) bool {
	return f.chunk != nil && f.chunk.n > 0 && pos-f.chunk.base < chunkLen
}

// Remove removes an item, given the position that it got last, unless a runner has claimed it.
func (f *Feeder[T]) Remove(item T, pos uint32) {
	if f.Has(pos) {
		f.Flush()
	}
	f.crew.Remove(item, pos)
}

// Flush hands over what was collected. It does not wait for the tasks.
func (f *Feeder[T]) Flush() {
	if f.chunk != nil && f.chunk.n > 0 {
		f.chunk = f.crew.addChunk(f.chunk)
	}
}
