package hashedwheel

import (
	"fmt"
	"math"

	"github.com/hashedwheel/hashedwheel/internal/bitmap"
)

const (
	// reach bounds how many ticks ahead an entry is placed. A timeout due later is placed again when these have passed.
	reach = 1 << 31

	pieceSize = 8
)

// A piece holds eight entries, of 12 bytes each. An entry is a timeout with the tick for which it was placed, counted from
// the base of the bucket. Unless the timeout is on the queue, it is not due before that tick. So until then the worker need
// not touch it. A Reset to an earlier tick queues the timeout, and the worker moves it.
//
// Pieces are small, so most of them are made at about the same time as their timeouts, and lie in the same order. Then
// the garbage collector, which follows each pointer, finds the next timeout near the one before. With large pieces a
// collection takes longer.
type piece struct {
	to    [pieceSize]*Timeout
	ticks [pieceSize]uint32
}

// A bucket holds entries of a level, in no order. A timeout knows its position, so removing one needs no
// search. Owned by the worker.
type bucket struct {
	pieces []*piece // all but the last are full; none is empty
	n      int      // the number of entries
	base   uint64   // the ticks of entries count from this one; undefined when empty
	min    uint64   // no entry is due before this tick; during a visit only of the entries that visit describes; undefined when empty
}

// A freeList keeps empty pieces, so that placing a timeout allocates only when the list is empty.
type freeList struct{ pieces []*piece }

// freeListLen is the number of pieces that a free list has from the start, and keeps at most. They take 16 KiB.
const freeListLen = 170

func newFreeList() freeList {
	f := freeList{make([]*piece, freeListLen)}
	for i := range f.pieces {
		f.pieces[i] = new(piece) // not all in one array, which would keep the timeouts of a piece alive that was dropped
	}
	return f
}

func (f *freeList) get() (taken *piece) {
	last := len(f.pieces) - 1
	if last < 0 {
		return new(piece)
	}
	taken, f.pieces[last] = f.pieces[last], nil
	f.pieces = f.pieces[:last]
	return taken
}

// put takes a piece back whose entries are of no use any more.
func (f *freeList) put(empty *piece) {
	if len(f.pieces) < freeListLen {
		clear(empty.to[:]) // it must not keep timeouts alive
		f.pieces = append(f.pieces, empty)
	}
}

// piece returns the piece of a position, and the index in it.
func (b *bucket) piece(pos int) (p *piece, i uint) {
	return b.pieces[uint(pos)/pieceSize], uint(pos) % pieceSize
}

func (b *bucket) at(pos int) (tick uint64, to *Timeout) {
	p, i := b.piece(pos)
	return b.base + uint64(p.ticks[i]), p.to[i]
}

// add appends an entry and sets the timeout's position. The tick must lie ahead of now, by at most reach.
func (b *bucket) add(now, tick uint64, to *Timeout, free *freeList) {
	switch {
	case b.n == 0:
		b.base, b.min = now, tick
	case tick-b.base > math.MaxUint32:
		b.rebase(now)
	}
	b.min = min(b.min, tick)
	if b.n%pieceSize == 0 {
		b.grow(free.get())
	}
	p, i := b.piece(b.n)
	p.to[i], p.ticks[i] = to, uint32(tick-b.base)
	to.pos = uint32(b.n)
	b.n++
}

// grow appends a piece. It clears the array that it leaves, because the first one is part of an array of the level, and
// would keep the piece alive.
func (b *bucket) grow(p *piece) {
	left := b.pieces
	b.pieces = append(left, p)
	if len(left) == cap(left) {
		clear(left)
	}
}

// rebase makes the ticks of entries count from now, because later ticks would not fit. An overdue entry gets the tick now.
func (b *bucket) rebase(now uint64) {
	ahead := now - b.base
	for pos := range b.n {
		p, i := b.piece(pos)
		p.ticks[i] -= uint32(min(ahead, uint64(p.ticks[i])))
	}
	b.base = now
}

// remove removes the entry of a timeout and returns its tick. Then the field min may be too low, which costs a spurious visit.
func (b *bucket) remove(to *Timeout, free *freeList) (tick uint64) {
	pos, n := int(to.pos), b.n
	found := (*Timeout)(nil)
	if pos < n {
		tick, found = b.at(pos)
	}
	if found != to {
		panic(fmt.Sprintf("hashedwheel: timeout not found at position %d of %d: it was copied or overwritten (go vet or hashedwheelvet finds where)", pos, n))
	}
	b.fill(pos, n-1)
	b.truncate(n-1, free)
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

// truncate keeps the first n entries, and gives back the pieces of the others.
func (b *bucket) truncate(n int, free *freeList) {
	b.n = n
	used := (n + pieceSize - 1) / pieceSize
	if n%pieceSize > 0 {
		clear(b.pieces[used-1].to[n%pieceSize:]) // it must not keep timeouts alive
	}
	for i, p := range b.pieces[used:] {
		free.put(p)
		b.pieces[used+i] = nil
	}
	b.pieces = b.pieces[:used]
	if c := cap(b.pieces); c > keepPieces && used < c/8 {
		b.pieces = append(make([]*piece, 0, 2*used), b.pieces...)
	}
}

// keepPieces is the largest array of pieces that a bucket keeps when it is nearly empty: 128 bytes. See keepBuckets for an
// empty one.
const keepPieces = 16

// A visit goes through the entries of a bucket from the end, some at a time. An entry that is not checked yet only moves to
// a lower position, where it fills the gap of a removed one. What is placed after the visit has begun need not be checked.
//
// Until the visit is done, min of the bucket counts only the entries that it has checked, and those placed since.
type visit struct {
	level int
	index uint64
	last  uint64 // entries for spans up to this one leave the bucket
	left  int    // entries at lower positions are to be checked
}

// A level is one level of the wheel: a bucket for each of the next spans of 1<<shift ticks. Owned by the worker.
type level struct {
	shift    uint
	buckets  []bucket    // nil until the first timeout, except on level 0; their number is a power of two
	occupied bitmap.Bits // the buckets that have entries
	stale    bitmap.Bits // the occupied buckets from which entries were taken without finding a new min
	visited  bitmap.Bits // the buckets with a visit in wheel.visits, which has one at most for each
	inUse    int         // how many buckets have entries
	count    int         // entries in all buckets

	comingDown visit // of the bucket for the next span, or for one that has passed: see Cascading in wheel.go
}

func (l *level) init(size int) {
	l.buckets = make([]bucket, size)
	if size <= keepBuckets {
		arrays := make([]*piece, size) // so that the worker can place a few timeouts without an allocation
		for i := range l.buckets {
			l.buckets[i].pieces = arrays[i : i : i+1]
		}
	}
	l.occupied = bitmap.New(size)
	l.stale = bitmap.New(size)
	l.visited = bitmap.New(size)
}

// added records that an entry has been added to a bucket.
func (l *level) added(index uint64) {
	l.count++
	if l.buckets[index].n == 1 {
		l.occupied.Set(index)
		l.inUse++
	}
}

func (l *level) remove(index uint64, to *Timeout, free *freeList) {
	b := &l.buckets[index]
	if b.remove(to, free) == b.min {
		l.stale.Set(index)
	}
	l.removed(index, 1)
}

// keepBuckets is the largest size of a level whose empty buckets keep an array for their next pieces.
const keepBuckets = 1 << 12

// removed records that n entries of a bucket have been removed.
func (l *level) removed(index uint64, n int) {
	l.count -= n
	if l.buckets[index].n > 0 {
		return
	}
	l.occupied.Clear(index)
	l.stale.Clear(index)
	l.inUse--
	if len(l.buckets) > keepBuckets {
		l.buckets[index].pieces = nil
	}
}

// findMin makes the min of a bucket exact.
func (l *level) findMin(index uint64) {
	b := &l.buckets[index]
	b.min = math.MaxUint64
	for pos := range b.n {
		tick, _ := b.at(pos)
		b.min = min(b.min, tick)
	}
	l.stale.Clear(index)
}

// firstVisit returns the first tick at which the worker must visit a bucket of the level, or latest if that is earlier.
func (l *level) firstVisit(now, latest uint64) uint64 {
	size := uint64(len(l.buckets))
	if size == 0 {
		return latest // it has never been used
	}
	// The wheel comes to the buckets from first on, then to those before. In each part, base is the span of bucket
	// 0.
	span := now>>l.shift + 1
	first := span & (size - 1)
	base := span - first
	for _, part := range [2]struct{ from, end, base uint64 }{{first, size, base}, {0, first, base + size}} {
		for index := l.occupied.Next(part.from, part.end); index < part.end; index = l.occupied.Next(index+1, part.end) {
			if latest>>l.shift+1 < part.base+index { // each bucket is needed at most one span early
				return latest // this bucket and all that follow are needed later
			}
			b := &l.buckets[index]
			if l.neededAt(index, now) < latest && l.stale.Has(index) && b.n <= worthScan && !l.cascades(index) {
				l.findMin(index)
			}
			latest = min(latest, l.neededAt(index, now))
		}
	}
	return latest
}

// cascades reports whether the timeouts of a bucket have begun to move down, and some are not checked yet. The bucket's min
// does not count these.
func (l *level) cascades(index uint64) bool {
	return l.comingDown.index == index && l.comingDown.left > 0
}

// neededAt returns the first tick at which the worker must visit a bucket, which must not be empty. If the bucket is on an upper
// level and has more than worthWaking entries, that is one span before the first is due, so that all of them move down in time.
// There is a span before, because an upper level has no entry in span 0.
func (l *level) neededAt(index, now uint64) uint64 {
	b := &l.buckets[index]
	if l.shift == 0 || b.n <= worthWaking {
		return b.min
	}
	return max(now+1, (b.min>>l.shift-1)<<l.shift)
}

// worthWaking is the number of entries above which the worker wakes up to move them down before their span comes.
const worthWaking = 1 << 12

// worthScan bounds the entries that firstVisit scans to save a wake-up.
// docs/guide.md has both numbers.
const worthScan = 1 << 13
