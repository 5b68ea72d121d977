package pool

import "slices"

// A list holds the items that wait for a runner, in the order in which they were added. Items are taken from its
// front. An item can also be removed from the middle: each has a position, and positions increase along the list. The
// lock of its pool guards it.
//
// The items lie in chunks, none of which is empty. An item that is removed leaves a gap. Chunks with many gaps are
// merged, so that a list from which items are removed takes some eight slots for each item that is left. An item never
// gets another position: it lies in the slot that its position leads to, or before, if chunks were merged.
type list[T comparable] struct {
	chunks []*chunk[T] // those before head are nil
	head   int
	spare  []*chunk[T] // empty chunks for reuse, at most maxSpare
	n      int         // items in the list
	next   uint32      // the position of the item that add adds next; wraps around
}

const (
	// chunkLen is the number of slots in a chunk, which takes 2,304 bytes on 64-bit machines. It is also the
	// largest number of items that a runner takes at a time. With 64, the worker and a runner contend for the lock of the
	// pool so often that a million tasks take a fifth longer.
	chunkLen = 256

	// maxSpare is the number of chunks that a list keeps for reuse until it is trimmed, which take 72 KiB. The array of
	// list.chunks has room for twice as many, because insert moves up to half of them to its front.
	maxSpare = 32
)

// A chunk holds items with positions near each other.
type chunk[T comparable] struct {
	base   uint32 // the position of items[0]; in a merged chunk, the least that it may have
	from   int    // items[:from] have been taken
	end    int    // items[end:] have not been used yet
	n      int    // items in the chunk
	merged bool   // it has the items of two chunks, moved together; taken only as a whole, because parts would not be found
	items  [chunkLen]T
}

// start returns the first position that the chunk may still have.
func (k *chunk[T]) start() uint32 { return k.base + uint32(k.from) }

// reset prepares an empty chunk for items with positions from base on.
func (k *chunk[T]) reset(base uint32) { k.base, k.from, k.end, k.n, k.merged = base, 0, 0, 0, false }

// hasRoom reports whether n items with positions from pos on fit behind those of the chunk.
func (k *chunk[T]) hasRoom(n int, pos uint32) bool {
	return k.end+n <= chunkLen && k.base+uint32(k.end) == pos
}

// put appends an item. There must be room.
func (k *chunk[T]) put(item T) {
	k.items[k.end] = item
	k.end++
	k.n++
}

// first returns the first item. The chunk must not be empty.
func (k *chunk[T]) first() T {
	var none T
	for k.items[k.from] == none {
		k.from++
	}
	return k.items[k.from]
}

// takeOne takes the first item. The chunk must not be empty.
func (k *chunk[T]) takeOne() (item T) {
	var none T
	item = k.first()
	k.items[k.from] = none
	k.from++
	k.n--
	return item
}

// index returns where an item lies that has this position, or -1 if it is not there any more.
func (k *chunk[T]) index(item T, pos uint32) int {
	for slot := min(int(int32(pos-k.base)), k.end-1); slot >= k.from; slot-- {
		if k.items[slot] == item { // at once, if no chunks were merged
			return slot
		}
	}
	return -1
}

// merge moves the items of the chunk and then those of the next one to the front of the chunk.
func (k *chunk[T]) merge(next *chunk[T]) {
	base, n := k.start(), 0
	for _, from := range [...]*chunk[T]{k, next} {
		for from.n > 0 {
			item := from.takeOne()
			k.items[n] = item // this slot is free, because n items have been taken, and this one
			n++
		}
	}
	k.base, k.from, k.end, k.n, k.merged = base, 0, n, n, true
}

// add appends an item. Its position is next.
func (l *list[T]) add(item T) {
	if l.n == 0 || !l.last().hasRoom(1, l.next) {
		l.insert(len(l.chunks), l.newChunk(l.next))
	}
	l.last().put(item)
	l.n++
	l.next++
}

// addChunk appends the items of a chunk, which have positions already. It returns an empty chunk, or nil.
func (l *list[T]) addChunk(k *chunk[T]) (empty *chunk[T]) {
	l.n += k.n
	if l.n == k.n || !l.last().hasRoom(k.end, k.base) {
		l.insert(len(l.chunks), k)
		return l.takeSpare()
	}
	last := l.last()
	last.n += k.n
	last.end += copy(last.items[last.end:], k.items[:k.end])
	clear(k.items[:k.end])
	k.n = 0
	return k
}

func (l *list[T]) last() *chunk[T] { return l.chunks[len(l.chunks)-1] }

// newChunk returns an empty chunk.
func (l *list[T]) newChunk(base uint32) *chunk[T] {
	k := l.takeSpare()
	if k == nil {
		k = new(chunk[T])
	}
	k.reset(base)
	return k
}

func (l *list[T]) takeSpare() (k *chunk[T]) {
	if i := len(l.spare) - 1; i >= 0 {
		k, l.spare[i] = l.spare[i], nil
		l.spare = l.spare[:i]
	}
	return k
}

// recycle keeps an empty chunk for reuse.
func (l *list[T]) recycle(k *chunk[T]) {
	if l.spare == nil {
		l.spare = make([]*chunk[T], 0, maxSpare)
	}
	if len(l.spare) < maxSpare {
		l.spare = append(l.spare, k)
	}
}

// allChunks returns the number of chunks, including the spare ones.
func (l *list[T]) allChunks() int { return len(l.chunks) - l.head + len(l.spare) }

// trim frees what the list keeps for reuse. The list must be empty.
func (l *list[T]) trim() { l.chunks, l.head, l.spare = nil, 0, nil }

// insert inserts a chunk at index i.
func (l *list[T]) insert(i int, k *chunk[T]) {
	switch {
	case l.chunks == nil:
		l.chunks = make([]*chunk[T], 0, 2*maxSpare)
	case i == l.head && i > 0:
		l.head--
		l.chunks[l.head] = k
		return
	case l.head >= len(l.chunks)/2 && len(l.chunks) == cap(l.chunks): // moves them to the front instead of growing
		n := copy(l.chunks, l.chunks[l.head:])
		clear(l.chunks[n:])
		l.chunks, i, l.head = l.chunks[:n], i-l.head, 0
	}
	l.chunks = slices.Insert(l.chunks, i, k)
}

// unlink takes a chunk out of the list.
func (l *list[T]) unlink(i int) *chunk[T] {
	k := l.chunks[i]
	if i > l.head {
		l.chunks = slices.Delete(l.chunks, i, i+1)
		return k
	}
	l.chunks[i] = nil // the usual case: without moving the others
	if l.head++; l.head == len(l.chunks) {
		l.chunks, l.head = l.chunks[:0], 0
		if cap(l.chunks) > chunkLen {
			l.chunks = make([]*chunk[T], 0, 2*maxSpare) // frees the array of a long list
		}
	}
	return k
}

// takeOne takes the first item. The list must not be empty.
func (l *list[T]) takeOne() T {
	k := l.chunks[l.head]
	item := k.takeOne()
	l.n--
	if k.n == 0 {
		l.recycle(l.unlink(l.head))
	}
	return item
}

// take takes up to most of the first items, or a merged chunk. They lie in a chunk, which belongs to the caller from then
// on. The list must not be empty.
func (l *list[T]) take(most int) (batch *chunk[T]) {
	k := l.chunks[l.head]
	if k.n <= most || k.merged {
		l.n -= k.n
		return l.unlink(l.head)
	}
	batch, from := l.newChunk(k.start()), k.from
	for batch.n < most {
		item := k.takeOne()
		batch.end = k.from - from - 1 // keeps the gaps, and so the positions
		batch.put(item)
	}
	l.n -= most
	return batch
}

// putBack puts the items of a chunk that take has returned back at their positions, except for the first n slots.
func (l *list[T]) putBack(batch *chunk[T], n int) {
	var none T
	items, from := 0, batch.from+n
	for _, item := range batch.items[from:batch.end] {
		if item != none {
			items++
		}
	}
	if items == 0 {
		return
	}
	rest := l.newChunk(batch.base)
	rest.from, rest.end, rest.n, rest.merged = from, batch.end, items, batch.merged
	copy(rest.items[from:], batch.items[from:batch.end])
	clear(batch.items[from:batch.end])
	l.insert(l.find(rest.start())+1, rest)
	l.n += items
}

// find returns the index of the last chunk that starts at or before a position, or head-1. Positions are compared by
// their difference, because they wrap around.
func (l *list[T]) find(pos uint32) int {
	i, found := slices.BinarySearchFunc(l.chunks[l.head:], pos, func(k *chunk[T], pos uint32) int {
		return int(int32(k.start() - pos))
	})
	if !found {
		i--
	}
	return l.head + i
}

// remove removes an item, given its position, and reports whether it was there. Merge says that it may merge chunks. It
// must be false while chunks that take has returned may be put back, because one of them may belong between two others.
func (l *list[T]) remove(item T, pos uint32, merge bool) bool {
	var none T
	i := l.find(pos)
	if i < l.head {
		return false
	}
	k := l.chunks[i]
	slot := k.index(item, pos)
	if slot < 0 {
		return false
	}
	k.items[slot] = none
	k.n--
	l.n--
	if k.n == 0 {
		l.recycle(l.unlink(i))
		return true
	}
	for j := max(i-1, l.head); merge && j <= i && j+1 < len(l.chunks); j++ {
		if l.chunks[j].n+l.chunks[j+1].n <= chunkLen/4 {
			l.chunks[j].merge(l.chunks[j+1])
			l.recycle(l.unlink(j + 1))
			break
		}
	}
	return true
}

// takeAll empties the list, and returns its items.
func (l *list[T]) takeAll() (all []T) {
	for l.n > 0 {
		all = append(all, l.takeOne())
	}
	l.trim()
	return all
}
