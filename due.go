package hashedwheel

import "slices"

// A dueList holds the items that wait for a runner, in the order in which they were added. Items are taken from
// its front. An item can also be removed from the middle: each has a position, and positions increase along the
// list. The lock of its crew guards it.
//
// The items lie in chunks, none of which is empty. An item that is removed leaves a gap. Chunks with many gaps are
// merged, so that a list from which items are removed takes some eight slots for each item that is left.
type dueList[T comparable] struct {
	host   placer[T]      // immutable
	chunks []*dueChunk[T] // those before head are nil
	head   int
	spare  []*dueChunk[T] // empty chunks for reuse, at most maxSpare
	n      int            // items in the list
	next   uint32         // the position of the item that add adds next; wraps around
}

// A placer keeps the positions of items.
type placer[T comparable] interface {
	// placed is called when a merge gives items new positions, which are consecutive and begin with pos.
	placed(items []T, pos uint32)
}

const (
	// chunkLen is the number of slots in a chunk, which takes 544 bytes on 64-bit machines. It is also the
	// largest number of items that a runner takes at a time.
	chunkLen = 64

	// maxSpare is the number of chunks that a list keeps for reuse, which take 9 KB.
	maxSpare = 16
)

// A dueChunk holds items with positions near each other.
type dueChunk[T comparable] struct {
	base  uint32 // the position of items[0]
	from  int    // items[:from] have been taken
	end   int    // items[end:] have not been used yet
	n     int    // items in the chunk
	items [chunkLen]T
}

// start returns the first position that the chunk still has.
func (k *dueChunk[T]) start() uint32 { return k.base + uint32(k.from) }

// hasRoom reports whether n items with positions from pos on fit behind those of the chunk.
func (k *dueChunk[T]) hasRoom(n int, pos uint32) bool {
	return k.end+n <= chunkLen && k.base+uint32(k.end) == pos
}

// put appends an item. There must be room.
func (k *dueChunk[T]) put(item T) {
	k.items[k.end] = item
	k.end++
	k.n++
}

// takeOne takes the first item. The chunk must not be empty.
func (k *dueChunk[T]) takeOne() (item T) {
	var none T
	for k.items[k.from] == none {
		k.from++
	}
	item, k.items[k.from] = k.items[k.from], none
	k.from++
	k.n--
	return item
}

// remove removes an item, given the position that it got last, and reports whether it was there.
func (k *dueChunk[T]) remove(item T, pos uint32) bool {
	var none T
	slot := pos - k.base
	if slot >= chunkLen || k.items[slot] != item {
		return false
	}
	k.items[slot] = none
	k.n--
	return true
}

// add appends an item. Its position is next.
func (l *dueList[T]) add(item T) {
	if l.n == 0 || !l.last().hasRoom(1, l.next) {
		l.insert(len(l.chunks), l.newChunk(l.next))
	}
	l.last().put(item)
	l.n++
	l.next++
}

// addChunk appends the items of a chunk, which have positions already. It returns an empty chunk, or nil.
func (l *dueList[T]) addChunk(k *dueChunk[T]) (empty *dueChunk[T]) {
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

func (l *dueList[T]) last() *dueChunk[T] { return l.chunks[len(l.chunks)-1] }

// newChunk returns an empty chunk.
func (l *dueList[T]) newChunk(base uint32) *dueChunk[T] {
	k := l.takeSpare()
	if k == nil {
		k = new(dueChunk[T])
	}
	k.base, k.from, k.end = base, 0, 0
	return k
}

func (l *dueList[T]) takeSpare() (k *dueChunk[T]) {
	if i := len(l.spare) - 1; i >= 0 {
		k, l.spare = l.spare[i], l.spare[:i]
	}
	return k
}

// recycle keeps an empty chunk for reuse.
func (l *dueList[T]) recycle(k *dueChunk[T]) {
	if len(l.spare) < maxSpare {
		l.spare = append(l.spare, k)
	}
}

// insert inserts a chunk at index i.
func (l *dueList[T]) insert(i int, k *dueChunk[T]) {
	if l.head > len(l.chunks)/2 && len(l.chunks) == cap(l.chunks) { // moves them to the front instead of growing
		n := copy(l.chunks, l.chunks[l.head:])
		clear(l.chunks[n:])
		l.chunks, i, l.head = l.chunks[:n], i-l.head, 0
	}
	l.chunks = slices.Insert(l.chunks, i, k)
}

// drop takes a chunk out of the list.
func (l *dueList[T]) drop(i int) *dueChunk[T] {
	k := l.chunks[i]
	if i > l.head {
		l.chunks = slices.Delete(l.chunks, i, i+1)
		return k
	}
	l.chunks[i] = nil // the usual case: without moving the others
	if l.head++; l.head == len(l.chunks) {
		l.chunks, l.head = l.chunks[:0], 0
		if cap(l.chunks) > chunkLen {
			l.chunks = nil // frees the array of a long list
		}
	}
	return k
}

// takeOne takes the first item. The list must not be empty.
func (l *dueList[T]) takeOne() T {
	k := l.chunks[l.head]
	item := k.takeOne()
	l.n--
	if k.n == 0 {
		l.recycle(l.drop(l.head))
	}
	return item
}

// take takes up to most of the first items. They lie in a chunk, which belongs to the caller from then on. The list
// must not be empty.
func (l *dueList[T]) take(most int) *dueChunk[T] {
	k := l.chunks[l.head]
	if k.n <= most {
		l.n -= k.n
		return l.drop(l.head)
	}
	some, from := l.newChunk(k.start()), k.from
	for some.n < most {
		item := k.takeOne()
		some.end = k.from - from - 1 // keeps the gaps, and so the positions
		some.put(item)
	}
	l.n -= most
	return some
}

// giveBack puts the items of a chunk that take has returned back at their positions.
func (l *dueList[T]) giveBack(k *dueChunk[T]) {
	l.insert(l.find(k.start())+1, k)
	l.n += k.n
}

// find returns the index of the last chunk that starts at or before a position, or head-1. Positions are compared by
// their difference, because they wrap around.
func (l *dueList[T]) find(pos uint32) int {
	i, found := slices.BinarySearchFunc(l.chunks[l.head:], pos, func(k *dueChunk[T], pos uint32) int {
		return int(int32(k.start() - pos))
	})
	if !found {
		i--
	}
	return l.head + i
}

// remove removes an item, given the position that it got last. It reports whether the item was still there. Merge
// says that it may merge chunks: no chunk may come back later, because its positions might be in use then.
func (l *dueList[T]) remove(item T, pos uint32, merge bool) bool {
	i := l.find(pos)
	if i < l.head {
		return false
	}
	k := l.chunks[i]
	if !k.remove(item, pos) {
		return false
	}
	l.n--
	if k.n == 0 {
		l.recycle(l.drop(i))
		return true
	}
	for j := max(i-1, l.head); merge && j <= i && j+1 < len(l.chunks); j++ {
		if l.chunks[j].n+l.chunks[j+1].n <= chunkLen/4 {
			l.merge(j)
			break
		}
	}
	return true
}

// merge moves the items of chunk i and of the one behind it to the front of chunk i. So the order of the list
// stays, and no position of another chunk is used.
func (l *dueList[T]) merge(i int) {
	merged := l.newChunk(l.chunks[i].start())
	for _, k := range l.chunks[i : i+2] {
		for k.n > 0 {
			merged.put(k.takeOne())
		}
	}
	l.host.placed(merged.items[:merged.n], merged.base)
	l.recycle(l.drop(i + 1))
	l.recycle(l.chunks[i])
	l.chunks[i] = merged
}

// takeAll empties the list, and returns its items.
func (l *dueList[T]) takeAll() (all []T) {
	for l.n > 0 {
		all = append(all, l.takeOne())
	}
	l.spare = nil
	return all
}

// A feeder collects items for a crew, and hands them over in chunks. So it seldom takes the lock of the crew, and
// holds it for a moment only. Owned by one goroutine, the only one that adds items to the crew.
type feeder[T comparable] struct {
	crew  *crew[T]
	chunk *dueChunk[T] // nil, or what was collected since the last flush
	next  uint32       // the position of the item that is collected next; wraps around
}

// add collects an item. Its position is next.
func (f *feeder[T]) add(item T) {
	if f.chunk == nil {
		f.chunk = new(dueChunk[T])
	}
	k := f.chunk
	if k.n == 0 {
		k.base, k.from, k.end = f.next, 0, 0
	}
	k.put(item)
	f.next++
	if k.end == chunkLen {
		f.flush()
	}
}

// has reports whether an item with this position was collected since the last flush.
func (f *feeder[T]) has(pos uint32) bool {
	return f.chunk != nil && f.chunk.n > 0 && pos-f.chunk.base < chunkLen
}

// flush hands over what was collected. It does not wait for the tasks.
func (f *feeder[T]) flush() {
	if f.chunk != nil && f.chunk.n > 0 {
		f.chunk = f.crew.addChunk(f.chunk)
	}
}
