package hashedwheel

import "slices"

// chunkLen is the number of slots in a chunk of a dueList. A chunk takes 544 bytes on 64-bit machines.
const chunkLen = 64

// A dueList holds the items that wait for a runner, in the order in which they were added. Items are taken from
// its front. An item can also be removed from the middle: each has a position, and positions increase along the
// list. The lock of its crew guards it.
//
// The items lie in chunks, which are never empty, except that an empty list keeps one chunk. An item that is
// removed leaves a gap. Chunks with many gaps are merged, so that the list takes at most some eight slots for each
// item.
type dueList[T comparable] struct {
	host   placer[T]      // immutable
	chunks []*dueChunk[T] // those before head are nil
	head   int
	spare  []*dueChunk[T] // for reuse, at most maxSpare
	n      int            // items in the list
	next   uint32         // the position of the item that add adds next; wraps around
}

// A placer keeps the positions of items.
type placer[T comparable] interface {
	// placed is called when items get positions, which are consecutive and begin with pos.
	placed(items []T, pos uint32)

	// isAt reports whether pos is the position that the item got last. If not, remove or merge has to do with
	// an entry that the owner of the item does not know any more. Such an entry may be dropped.
	isAt(item T, pos uint32) bool
}

// maxSpare is the number of chunks that a list keeps for reuse, which take 9 KB.
const maxSpare = 16

type dueChunk[T comparable] struct {
	base  uint32 // the position of items[0]
	from  int    // items[:from] have been taken
	end   int    // items[end:] have not been used yet
	n     int    // items in the chunk
	items [chunkLen]T
}

// start returns the first position that the chunk still has.
func (k *dueChunk[T]) start() uint32 { return k.base + uint32(k.from) }

// add appends items, and tells the host their positions.
func (l *dueList[T]) add(items []T) {
	for len(items) > 0 {
		if l.n == 0 || !l.last().hasRoom(1, l.next) {
			l.insert(len(l.chunks), l.newChunk(l.next))
		}
		k := l.last()
		n := copy(k.items[k.end:], items)
		l.host.placed(items[:n], l.next)
		l.next += uint32(n)
		k.end += n
		k.n += n
		l.n += n
		items = items[n:]
	}
}

// addChunk appends the items of a chunk, which have positions already. It returns an empty chunk for reuse, or nil.
func (l *dueList[T]) addChunk(k *dueChunk[T]) (empty *dueChunk[T]) {
	if l.n == 0 || !l.last().hasRoom(k.end, k.base) {
		l.n += k.n
		l.insert(len(l.chunks), k)
		return l.takeSpare()
	}
	last := l.last()
	copy(last.items[last.end:], k.items[:k.end])
	last.end += k.end
	last.n += k.n
	l.n += k.n
	clear(k.items[:k.end])
	k.n = 0
	return k
}

// newChunk returns an empty chunk.
func (l *dueList[T]) newChunk(base uint32) *dueChunk[T] {
	k := l.takeSpare()
	if k == nil {
		k = new(dueChunk[T])
	}
	k.base, k.from, k.end = base, 0, 0
	return k
}

// takeSpare returns an empty chunk, or nil if there is none.
func (l *dueList[T]) takeSpare() (k *dueChunk[T]) {
	if i := len(l.spare) - 1; i >= 0 {
		k, l.spare = l.spare[i], l.spare[:i]
	}
	return k
}

func (l *dueList[T]) last() *dueChunk[T] { return l.chunks[len(l.chunks)-1] }

// hasRoom reports whether n items fit behind those of the chunk. They have positions from pos on.
func (k *dueChunk[T]) hasRoom(n int, pos uint32) bool {
	return k.end+n <= chunkLen && k.base+uint32(k.end) == pos
}

// insert inserts a chunk at index i, and returns its index, which may change.
func (l *dueList[T]) insert(i int, k *dueChunk[T]) int {
	if len(l.chunks) > 0 && l.chunks[0] != nil && l.chunks[0].n == 0 { // the one that an empty list keeps
		l.recycle(l.chunks[0])
		l.chunks[0] = k
		return 0
	}
	if l.head > len(l.chunks)/2 && len(l.chunks) == cap(l.chunks) { // moves them to the front instead of growing
		n := copy(l.chunks, l.chunks[l.head:])
		clear(l.chunks[n:])
		l.chunks, i, l.head = l.chunks[:n], i-l.head, 0
	}
	l.chunks = slices.Insert(l.chunks, i, k)
	return i
}

// take moves the first items to a group, at least one and at most as many as fit. The list must not be empty.
// The items of the group have consecutive positions, of which take returns the first.
func (l *dueList[T]) take(group []T) (n int, pos uint32) {
	var none T
	k := l.chunks[l.head]
	for k.items[k.from] == none {
		k.from++
	}
	pos = k.start()
	for n < len(group) && k.from < k.end && k.items[k.from] != none {
		group[n], k.items[k.from] = k.items[k.from], none
		k.from++
		n++
	}
	l.count(l.head, -n)
	return n, pos
}

// giveBack puts items that take has returned back at their positions, which begin with pos.
func (l *dueList[T]) giveBack(group []T, pos uint32) {
	k := l.newChunk(pos)
	i := l.insert(l.find(pos)+1, k)
	k.end = copy(k.items[:], group)
	l.count(i, k.end)
}

// remove removes an item, given the position that it got last. It reports whether the item was still there. Merge
// says that it may merge chunks: no group may come back later, because its positions might be in use then.
func (l *dueList[T]) remove(item T, pos uint32, merge bool) bool {
	var none T
	i := l.find(pos)
	if i < l.head {
		return false
	}
	k := l.chunks[i]
	slot := pos - k.base
	if slot >= chunkLen || k.items[slot] != item {
		return false
	}
	k.items[slot] = none
	if !l.count(i, -1) || !merge {
		return true
	}
	for j := max(i-1, l.head); j <= i && j+1 < len(l.chunks); j++ {
		if l.chunks[j].n+l.chunks[j+1].n <= chunkLen/4 {
			l.merge(j)
			break
		}
	}
	return true
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

// count counts items that have come to chunk i, or have left it if n is negative. It reports whether the chunk is
// still in use.
func (l *dueList[T]) count(i, n int) bool {
	k := l.chunks[i]
	k.n += n
	l.n += n
	switch {
	case k.n > 0:
		return true
	case l.n == 0:
		l.chunks[i] = nil
		if cap(l.chunks) > chunkLen {
			l.chunks = nil // frees the array of a long list
		}
		l.chunks, l.head = append(l.chunks[:0], k), 0
	case i == l.head: // the usual case: without moving the others
		l.chunks[i] = nil
		l.head++
		l.recycle(k)
	default:
		l.chunks = slices.Delete(l.chunks, i, i+1)
		l.recycle(k)
	}
	return false
}

// recycle keeps an empty chunk for reuse.
func (l *dueList[T]) recycle(k *dueChunk[T]) {
	if len(l.spare) < maxSpare {
		l.spare = append(l.spare, k)
	}
}

// merge moves the items of chunk i and of the one behind it to the front of chunk i. So the order of the list
// stays, and no position of another chunk is used.
func (l *dueList[T]) merge(i int) {
	var none T
	var items [chunkLen / 4]T
	n, start := 0, l.chunks[i].start()
	for _, k := range l.chunks[i : i+2] {
		for slot, item := range k.items {
			if item != none && l.host.isAt(item, k.base+uint32(slot)) {
				items[n] = item
				n++
			}
			k.items[slot] = none
		}
	}
	l.count(i+1, -l.chunks[i+1].n)
	k := l.chunks[i]
	k.base, k.from, k.end = start, 0, n
	copy(k.items[:], items[:n])
	l.host.placed(items[:n], start)
	l.count(i, n-k.n)
}

// takeAll empties the list, and returns its items.
func (l *dueList[T]) takeAll() (all []T) {
	var none T
	for _, k := range l.chunks[l.head:] {
		for _, item := range k.items {
			if item != none {
				all = append(all, item)
			}
		}
	}
	*l = dueList[T]{host: l.host, next: l.next}
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
	k := f.chunk
	if k == nil {
		k = new(dueChunk[T])
		f.chunk = k
	}
	if k.n == 0 {
		k.base, k.from, k.end = f.next, 0, 0
	}
	k.items[k.end] = item
	k.end++
	k.n++
	f.next++
	if k.end == chunkLen {
		f.flush()
	}
}

// flush hands over what was collected. It does not wait for the tasks.
func (f *feeder[T]) flush() {
	if f.chunk != nil && f.chunk.n > 0 {
		f.chunk = f.crew.addChunk(f.chunk)
	}
}
