package pool

import (
	"slices"
	"sync"
	"sync/atomic"
)

// A list holds the items that wait for a runner, in the order in which they were added. Items are taken from its
// front. An item that came from a Feeder can also be removed from the middle: each has a position, and positions increase
// along the list. The lock of its pool guards it.
//
// The items lie in chunks, which are never empty. A removed item leaves a gap. So an item stays in the entry that its
// position leads to.
type list[T comparable] struct {
	memory *Memory[T]
	chunks []*chunk[T] // those before head are nil
	head   int
	n      int // items in the list

	// No item is left before this position. Written with the lock of the pool held. The Feeder reads it without the lock: a
	// value that has become too low meanwhile makes it take the lock for nothing.
	gone atomic.Uint32
}

const (
	// chunkLen is the number of entries in a chunk, and of items that a Feeder hands over at a time. A chunk takes 2,352
	// bytes on 64-bit machines. With 1, the owner of the Feeder takes the lock for each item, and tasks that are due
	// together take longer.
	chunkLen = 256

	// keptLen is the capacity of the array of list.chunks that an empty list keeps, and of Pool.runners in an idle pool.
	keptLen = 64
)

// A chunk holds items with positions near each other.
type chunk[T comparable] struct {
	base  uint32 // the position of items[0]
	from  int    // items[:from] have been taken
	n     int    // items in the chunk
	items []T    // the entries that have been used; room for chunkLen
}

// hasRoom reports whether n more items fit into the chunk.
func (k *chunk[T]) hasRoom(n int) bool { return len(k.items)+n <= cap(k.items) }

// put appends an item. There must be room.
func (k *chunk[T]) put(item T) {
	n := len(k.items)
	k.items = k.items[:n+1]
	k.items[n] = item
	k.n++
}

// popFirst takes the first item. The chunk must not be empty.
func (k *chunk[T]) popFirst() (item T) {
	var none T
	for k.items[k.from] == none {
		k.from++
	}
	item = k.items[k.from]
	k.items[k.from] = none
	k.from++
	k.n--
	return item
}

// add appends an item.
func (l *list[T]) add(item T) {
	if l.n == 0 || !l.last().hasRoom(1) {
		l.push(l.memory.chunk(l.end()))
	}
	l.last().put(item)
	l.n++
}

// join appends the items of a chunk, which have positions already, to the last chunk. It returns false if there is no room,
// or the positions do not follow those of the last chunk: removals may have emptied a chunk in between.
func (l *list[T]) join(k *chunk[T]) bool {
	if l.n == 0 || k.base != l.end() || !l.last().hasRoom(len(k.items)) {
		return false
	}
	last := l.last()
	last.items = append(last.items, k.items...)
	last.n += k.n
	l.n += k.n
	l.memory.keep(k)
	return true
}

func (l *list[T]) length() int { return len(l.chunks) - l.head }

// last returns the last chunk. The list must not be empty.
func (l *list[T]) last() *chunk[T] { return l.chunks[len(l.chunks)-1] }

// end returns the position of the item that is added next, or 0 if the list is empty.
func (l *list[T]) end() uint32 {
	if l.n == 0 {
		return 0
	}
	return l.last().base + uint32(len(l.last().items))
}

// firstWhere returns the first item that matches, or the zero T.
func (l *list[T]) firstWhere(match func(item T) bool) (found T) {
	var none T
	for _, k := range l.chunks[l.head:] {
		for _, item := range k.items[k.from:] {
			if item != none && match(item) {
				return item
			}
		}
	}
	return none
}

// push appends a chunk, which then belongs to the list. The chunk before gets no more items.
//
// Not inlined, because that would make the frames of a goroutine that adds larger than the stack of a new one.
//
//go:noinline
func (l *list[T]) push(k *chunk[T]) {
	l.n += k.n
	if l.head > len(l.chunks)/2 && len(l.chunks) == cap(l.chunks) { // moves them to the front instead of growing
		n := copy(l.chunks, l.chunks[l.head:])
		clear(l.chunks[n:])
		l.chunks, l.head = l.chunks[:n], 0
	}
	l.chunks = append(l.chunks, k)
}

// unlink takes a chunk out of the list.
func (l *list[T]) unlink(i int) *chunk[T] {
	k := l.chunks[i]
	if i > l.head {
		l.chunks = slices.Delete(l.chunks, i, i+1)
		return k
	}
	l.chunks[i] = nil // the usual case: without moving the others
	l.gone.Store(k.base + uint32(len(k.items)))
	if l.head++; l.head == len(l.chunks) {
		l.chunks, l.head = l.chunks[:0], 0
		if cap(l.chunks) > keptLen {
			l.chunks = nil
		}
	}
	return k
}

// popFirst takes the first item. The list must not be empty.
func (l *list[T]) popFirst() T {
	k := l.chunks[l.head]
	item := k.popFirst()
	l.n--
	if k.n == 0 {
		l.memory.keep(l.unlink(l.head))
	}
	return item
}

// find returns the index of the last chunk whose base is a position or before it, or head-1. Positions are compared by
// their difference, because they wrap around.
func (l *list[T]) find(pos uint32) int {
	i, found := slices.BinarySearchFunc(l.chunks[l.head:], pos, func(k *chunk[T], pos uint32) int {
		return int(int32(k.base - pos))
	})
	if !found {
		i--
	}
	return l.head + i
}

// remove removes an item, given its position, and reports whether it was there.
func (l *list[T]) remove(item T, pos uint32) bool {
	var none T
	i := l.find(pos)
	if i < l.head {
		return false
	}
	k := l.chunks[i]
	at := int(pos - k.base)
	if at >= len(k.items) || k.items[at] != item {
		return false
	}
	k.items[at] = none
	k.n--
	l.n--
	if k.n == 0 {
		l.memory.keep(l.unlink(i))
	}
	return true
}

// popAll empties the list, and returns its items.
func (l *list[T]) popAll() (all []T) {
	for l.n > 0 {
		all = append(all, l.popFirst())
	}
	l.chunks = nil
	return all
}

// A Memory keeps empty chunks for reuse. Pools share it, so that an idle pool needs no memory.
//
// It is not a sync.Pool, because the garbage collector empties that. In a storm of garbage, a goroutine that then allocates
// must help the collector first (TestBurstsNeedNoMemory).
type Memory[T comparable] struct {
	mu     sync.Mutex
	chunks []*chunk[T] // up to maxSpare
}

// maxSpare is how many chunks are kept for reuse, which take 74 KiB.
const maxSpare = 32

// chunk returns an empty chunk for items with positions from base on.
func (m *Memory[T]) chunk(base uint32) *chunk[T] {
	k := m.get()
	if k == nil { // allocated without the lock, because that may have to wait for the garbage collector
		k = &chunk[T]{items: make([]T, 0, chunkLen)}
	}
	k.base = base
	return k
}

// get returns a chunk that was kept, or nil.
func (m *Memory[T]) get() (k *chunk[T]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if last := len(m.chunks) - 1; last >= 0 {
		k, m.chunks[last] = m.chunks[last], nil
		m.chunks = m.chunks[:last]
	}
	return k
}

// keep keeps a chunk whose items are not needed any more, unless enough are kept.
func (m *Memory[T]) keep(k *chunk[T]) {
	clear(k.items)
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.chunks) < maxSpare {
		*k = chunk[T]{items: k.items[:0]}
		m.chunks = append(m.chunks, k)
	}
}
