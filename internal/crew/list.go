package crew

import "slices"

// A list holds the items that wait for a runner, in the order in which they were added. Items are taken from
// its front. An item can also be removed from the middle: each has a position, and positions increase along the
// list. The lock of its crew guards it.
//
// The items lie in chunks, none of which is empty. An item that is removed leaves a gap. Chunks with many gaps are
// merged, so that a list from which items are removed takes some eight slots for each item that is left.
type list[T comparable] struct {
	host   Host[T]     // for Placed; immutable
	chunks []*chunk[T] // those before head are nil
	head   int
	spare  []*chunk[T] // empty chunks for reuse, at most maxSpare
	n      int         // items in the list
	next   uint32      // the position of the item that add adds next; wraps around
}

const (
	// chunkLen is the number of slots in a chunk, which takes 2,304 bytes on 64-bit machines. It is also the
	// largest number of items that a runner takes at a time. With 64, the worker and a runner contend for the lock of the
	// crew so often that a million tasks take a fifth longer.
	chunkLen = 256

	// maxSpare is the number of chunks that a list keeps for reuse until it is trimmed, which take 72 KiB.
	maxSpare = 32
)

// A chunk holds items with positions near each other.
type chunk[T comparable] struct {
	base  uint32 // the position of items[0]
	from  int    // items[:from] have been taken
	end   int    // items[end:] have not been used yet
	n     int    // items in the chunk
	items [chunkLen]T
}

// start returns the first position that the chunk still has.
func (k *chunk[T]) start() uint32 { return k.base + uint32(k.from) }

// has reports whether the chunk still has a position. The next position may belong to another chunk.
func (k *chunk[T]) has(pos uint32) bool { return pos-k.start() < uint32(k.end-k.from) }

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

// takeOne takes the first item. The chunk must not be empty.
func (k *chunk[T]) takeOne() (item T) {
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
func (k *chunk[T]) remove(item T, pos uint32) bool {
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
	k.base, k.from, k.end = base, 0, 0
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
	if len(l.spare) < maxSpare {
		l.spare = append(l.spare, k)
	}
}

// allChunks returns the number of chunks, including the spare ones.
func (l *list[T]) allChunks() int { return len(l.chunks) - l.head + len(l.spare) }

// grow makes room for n chunks, on the list and among the spare ones.
func (l *list[T]) grow(n int) {
	l.chunks = grown(l.chunks, min(2*n+1, chunkLen)) // insert moves them when more than half of the array is free
	l.spare = grown(l.spare, n)
}

// trim frees what the list keeps for reuse. The list must be empty.
func (l *list[T]) trim() { l.chunks, l.head, l.spare = nil, 0, nil }

// insert inserts a chunk at index i.
func (l *list[T]) insert(i int, k *chunk[T]) {
	if l.head > len(l.chunks)/2 && len(l.chunks) == cap(l.chunks) { // moves them to the front instead of growing
		n := copy(l.chunks, l.chunks[l.head:])
		clear(l.chunks[n:])
		l.chunks, i, l.head = l.chunks[:n], i-l.head, 0
	}
	l.chunks = slices.Insert(l.chunks, i, k)
}

// drop takes a chunk out of the list.
func (l *list[T]) drop(i int) *chunk[T] {
	k := l.chunks[i]
	if i > l.head {
		l.chunks = slices.Delete(l.chunks, i, i+1)
		return k
	}
	l.chunks[i] = nil // the usual case: without moving the others
	if l.head++; l.head == len(l.chunks) {
		l.chunks, l.head = l.chunks[:0], 0
		if cap(l.chunks) > chunkLen {
			l.chunks = make([]*chunk[T], 0, chunkLen) // frees the array of a long list
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
		l.recycle(l.drop(l.head))
	}
	return item
}

// take takes up to most of the first items. They lie in a chunk, which belongs to the caller from then on. The list
// must not be empty.
func (l *list[T]) take(most int) *chunk[T] {
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

// giveBack puts the items of a chunk that take has returned back at their positions, except for the first n slots. It
// returns how many these are.
func (l *list[T]) giveBack(k *chunk[T], n int) (items int) {
	var none T
	from := k.from + n
	for _, item := range k.items[from:k.end] {
		if item != none {
			items++
		}
	}
	if items == 0 {
		return 0
	}
	rest := l.newChunk(k.base)
	rest.from, rest.end, rest.n = from, k.end, items
	copy(rest.items[from:], k.items[from:k.end])
	clear(k.items[from:k.end])
	l.insert(l.find(rest.start())+1, rest)
	l.n += items
	return items
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

// remove removes an item, given the position that it got last. It reports whether the item was still there. Merge
// says that it may merge chunks: no chunk may come back later, because its positions might be in use then.
func (l *list[T]) remove(item T, pos uint32, merge bool) bool {
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
func (l *list[T]) merge(i int) {
	merged := l.chunks[i]
	base, n := merged.start(), 0
	for _, k := range l.chunks[i : i+2] {
		for k.n > 0 {
			item := k.takeOne()
			merged.items[n] = item // this slot is free, because n items have been taken, and this one
			n++
		}
	}
	merged.base, merged.from, merged.end, merged.n = base, 0, n, n
	l.host.Placed(merged.items[:n], base)
	l.recycle(l.drop(i + 1))
}

// takeAll empties the list, and returns its items.
func (l *list[T]) takeAll() (all []T) {
	for l.n > 0 {
		all = append(all, l.takeOne())
	}
	l.trim()
	return all
}
