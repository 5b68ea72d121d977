package hashedwheel

import (
	"fmt"
	"iter"
	"math"
	"math/bits"
)

const (
	// reach bounds how many ticks ahead an entry is placed. A timeout due later is placed again when they are over.
	reach = 1 << 31

	pieceSize   = 4
	chunkPieces = 127                     // so a chunk, with 8 bytes that the allocator adds, takes just 6,144 bytes
	chunkSize   = chunkPieces * pieceSize // entries; a larger bucket grows by whole chunks, without copying
	keepCap     = 72                      // entries: an array up to this size, under 1 KiB, is kept when nearly unused
)

// An entry is a timeout with the tick for which it was placed. Unless it is on the queue, it is not due before that
// tick, because the worker moves one that is reset to an earlier tick. So until then the worker need not touch it.
type entry struct {
	tick uint64
	to   *Timeout
}

// A piece holds four entries, of 12 bytes each. Their ticks count from the base of the bucket.
type piece struct {
	to    [pieceSize]*Timeout
	ticks [pieceSize]uint32
}

// A bucket holds the entries of one slot of a level, in no order. They lie in arrays, not in a list, because a visit
// then reads memory in sequence. A timeout knows its position, so removing one needs no search. Owned by the worker.
type bucket struct {
	first []piece   // the first chunkSize entries
	more  *chunks   // the other entries; may be nil if there are none
	home  *[1]piece // the array of first while one piece is enough; nil in a very large level
	n     int       // the number of entries
	base  uint64    // the tick from which the ticks of entries count; undefined when empty
	min   uint64    // no entry is due before this tick; undefined when empty
}

type chunks []*[chunkPieces]piece

func (b *bucket) len() int { return b.n }

// pieces returns the array in which a position lies, and the position of the array's first entry.
func (b *bucket) pieces(pos int) (array []piece, start int) {
	if pos < chunkSize {
		return b.first, 0
	}
	i := pos/chunkSize - 1
	return (*b.more)[i][:], (i + 1) * chunkSize
}

// piece returns the piece of a position and the index in it. The position is less than len, or was made by grow.
func (b *bucket) piece(pos int) (p *piece, i int) {
	array, start := b.pieces(pos)
	return &array[(pos-start)/pieceSize], (pos - start) % pieceSize
}

func (b *bucket) at(pos int) entry {
	p, i := b.piece(pos)
	return entry{b.base + uint64(p.ticks[i]), p.to[i]}
}

// add appends an entry and sets the timeout's position. The tick must lie ahead of now, by at most reach.
func (b *bucket) add(now, tick uint64, to *Timeout) {
	switch {
	case b.n == 0:
		b.base, b.min = now, tick
	case tick-b.base > math.MaxUint32:
		b.rebase(now)
	}
	b.min = min(b.min, tick)
	b.grow()
	p, i := b.piece(b.n)
	p.to[i], p.ticks[i] = to, uint32(tick-b.base)
	to.pos = uint32(b.n)
	b.n++
}

// grow makes room for one more entry.
func (b *bucket) grow() {
	if b.n%pieceSize != 0 {
		return
	}
	if b.n < chunkSize {
		if b.n/pieceSize == len(b.first) {
			b.first = append(b.first, piece{})
			if b.n == pieceSize && b.home != nil {
				b.home[0] = piece{} // it must not keep timeouts alive
			}
		}
		return
	}
	if b.more == nil {
		b.more = new(chunks)
	}
	if b.n/chunkSize > len(*b.more) {
		*b.more = append(*b.more, new([chunkPieces]piece))
	}
}

// rebase makes the ticks of entries count from now: later ticks would not fit. An overdue entry gets the tick now.
func (b *bucket) rebase(now uint64) {
	ahead := now - b.base
	for pos := range b.n {
		p, i := b.piece(pos)
		p.ticks[i] -= uint32(min(ahead, uint64(p.ticks[i])))
	}
	b.base = now
}

// remove removes the entry of a timeout and returns its tick. Min may then be too low, which costs a spurious visit.
func (b *bucket) remove(to *Timeout) (tick uint64) {
	pos, n := int(to.pos), b.n
	if pos >= n || b.at(pos).to != to {
		panic(fmt.Sprintf("hashedwheel: timeout not found at position %d of %d", pos, n))
	}
	tick = b.at(pos).tick
	b.fill(pos, n-1)
	b.truncate(n - 1)
	return tick
}

// fill moves the last entry to pos, where an entry has been removed.
func (b *bucket) fill(pos, last int) {
	if pos != last {
		p, i := b.piece(pos)
		q, j := b.piece(last)
		p.to[i], p.ticks[i] = q.to[j], q.ticks[j]
		p.to[i].pos = uint32(pos)
	}
}

// truncate keeps the first n entries and frees memory. One unused chunk stays, in case the length varies around it.
func (b *bucket) truncate(n int) {
	was := b.n
	b.n = n
	if was > chunkSize && b.more != nil {
		used := max(n-1, 0) / chunkSize // chunks in use
		if kept := used + 1; kept < len(*b.more) {
			clear((*b.more)[kept:])
			*b.more = (*b.more)[:kept]
		}
		for i := max(used-1, 0); i < len(*b.more); i++ {
			start := (i + 1) * chunkSize
			forget((*b.more)[i][:], n-start, was-start)
		}
	}
	if n < chunkSize/2 {
		b.more = nil
	}
	if n >= chunkSize {
		return
	}
	forget(b.first, n, was)
	if c := cap(b.first) * pieceSize; c > keepCap && n < c/8 {
		used := (n + pieceSize - 1) / pieceSize
		if used <= 1 && b.home != nil {
			b.first = append(b.home[:0], b.first[:used]...)
		} else {
			b.first = append(make([]piece, 0, 2*used), b.first[:used]...)
		}
	}
}

// forget clears entries n to end-1 of an array, as far as they lie in it: it must not keep their timeouts alive.
func forget(array []piece, n, end int) {
	n, end = max(n, 0), min(end, len(array)*pieceSize)
	for ; n < end && n%pieceSize != 0; n++ {
		array[n/pieceSize].to[n%pieceSize] = nil
	}
	if n < end {
		clear(array[n/pieceSize : (end+pieceSize-1)/pieceSize])
	}
}

func (b *bucket) findMin() {
	first := uint64(math.MaxUint64)
	for pos := 0; pos < b.n; {
		array, start := b.pieces(pos)
		for end := min(b.n, start+len(array)*pieceSize); pos < end; pos++ {
			first = min(first, b.base+uint64(array[(pos-start)/pieceSize].ticks[(pos-start)%pieceSize]))
		}
	}
	b.min = first
}

// A level is one level of the wheel: a bucket for each of the next blocks of 1<<shift ticks. Owned by the worker.
type level struct {
	shift    uint
	buckets  []bucket // nil until the first timeout, except on level 0; their number is a power of two
	occupied bitmap   // the buckets that have entries
	stale    bitmap   // the occupied buckets whose min may be too low
	inUse    int      // how many buckets have entries
	count    int      // entries in all buckets

	// How far the block after the hand's has moved down: see Cascading in wheel.go.
	block     uint64 // the block that toCascade belongs to
	toCascade int    // entries of its bucket that have not been checked yet
}

func (l *level) init(size int) {
	l.buckets = make([]bucket, size)
	if size <= keepBuckets {
		homes := make([][1]piece, size) // so that the worker can place a few timeouts without an allocation
		for i := range l.buckets {
			l.buckets[i].home, l.buckets[i].first = &homes[i], homes[i][:0]
		}
	}
	l.occupied = newBitmap(size)
	l.stale = newBitmap(size)
}

// add adds a timeout to the bucket of a slot. The caller sets Timeout.bucket.
func (l *level) add(slot, now, tick uint64, to *Timeout) {
	b := &l.buckets[slot]
	b.add(now, tick, to)
	l.count++
	if b.len() == 1 {
		l.occupied.set(slot)
		l.inUse++
	}
}

func (l *level) remove(slot uint64, to *Timeout) {
	b := &l.buckets[slot]
	tick := b.remove(to)
	l.count--
	switch {
	case b.len() == 0:
		l.emptied(slot)
		l.stale.clear(slot)
	case tick == b.min:
		l.stale.set(slot)
	}
}

// keepBuckets is the largest size of a level whose empty buckets keep memory for their next entries: 3.5 MB in all.
const keepBuckets = 1 << 12

// emptied records that the last entry of a bucket has been removed.
func (l *level) emptied(slot uint64) {
	l.occupied.clear(slot)
	l.inUse--
	if len(l.buckets) > keepBuckets {
		l.buckets[slot].first = nil
	}
}

// each yields the slot and the number of entries of each bucket in use, for slots in [from, end).
func (l *level) each(from, end uint64) iter.Seq2[uint64, int] {
	return func(yield func(uint64, int) bool) {
		end = min(end, uint64(len(l.buckets)))
		for slot := l.occupied.next(from, end); slot < end; slot = l.occupied.next(slot+1, end) {
			if !yield(slot, l.buckets[slot].len()) {
				return
			}
		}
	}
}

func (l *level) findMin(slot uint64) {
	l.buckets[slot].findMin()
	l.stale.clear(slot)
}

// earliest returns the first tick at which a bucket of the level needs the worker, or bound if that is earlier.
func (l *level) earliest(now, bound uint64) uint64 {
	size := uint64(len(l.buckets))
	if size == 0 {
		return bound // it has never been used
	}
	// The hand enters the slots from first on, then those before. Base is the block of slot 0 in each part.
	block := now>>l.shift + 1
	first := block & (size - 1)
	base := block - first
	for _, part := range [2]struct{ from, end, base uint64 }{{first, size, base}, {0, first, base + size}} {
		for slot := l.occupied.next(part.from, part.end); slot < part.end; slot = l.occupied.next(slot+1, part.end) {
			if bound>>l.shift+1 < part.base+slot {
				return bound // all that follow are later
			}
			b := &l.buckets[slot]
			if l.neededAt(slot, now) < bound && l.stale.has(slot) && b.len() <= worthScan {
				l.findMin(slot)
			}
			bound = min(bound, l.neededAt(slot, now))
		}
	}
	return bound
}

// neededAt returns the first tick at which a bucket, which must not be empty, needs the worker.
func (l *level) neededAt(slot, now uint64) uint64 {
	b := &l.buckets[slot]
	if l.shift == 0 || b.len() <= worthWaking {
		return b.min
	}
	return max(now+1, (b.min>>l.shift-1)<<l.shift)
}

// worthWaking is the number of entries above which the worker wakes up to move them down before their block comes.
const worthWaking = 1 << 12

// worthScan bounds the entries that earliest scans to save a wake-up. It must not be less than worthWaking.
// docs/guide.md has both numbers.
const worthScan = 1 << 13

type bitmap []uint64

func newBitmap(size int) bitmap { return make(bitmap, (size+63)/64) }

func (m bitmap) set(i uint64)      { m[i/64] |= 1 << (i % 64) }
func (m bitmap) clear(i uint64)    { m[i/64] &^= 1 << (i % 64) }
func (m bitmap) has(i uint64) bool { return m[i/64]>>(i%64)&1 != 0 }

// next returns the first bit that is set in [from, end), or end if there is none.
func (m bitmap) next(from, end uint64) uint64 {
	for from < end {
		if rest := m[from/64] >> (from % 64); rest != 0 {
			return min(end, from+uint64(bits.TrailingZeros64(rest)))
		}
		from = (from/64 + 1) * 64
	}
	return end
}
