package hashedwheel

import (
	"iter"
	"math/bits"
)

// A level is one level of the wheel. It has a bucket for each of the next blocks of 1<<shift ticks. Owned
// by the worker.
type level struct {
	shift    uint
	buckets  []bucket // nil until the first timeout, except on level 0; their number is a power of two
	occupied bitmap   // the buckets that have entries
	stale    bitmap   // the occupied buckets whose min may be too low
	inUse    int      // how many buckets have entries
	count    int      // entries in all buckets

	// How far the block after the hand's has moved down, see cascade.go.
	block     uint64 // the block that toCascade belongs to
	toCascade int    // entries of its bucket that have not been checked yet
}

func (l *level) init(size int) {
	l.buckets = make([]bucket, size)
	l.occupied = newBitmap(size)
	l.stale = newBitmap(size)
}

// add adds a timeout to the bucket of a slot. It sets the timeout's position in the bucket. The caller
// sets the bucket.
func (l *level) add(slot, now, tick uint64, to *Timeout) {
	b := &l.buckets[slot]
	b.add(now, tick, to)
	l.count++
	if b.len() == 1 {
		l.occupied.set(slot)
		l.inUse++
	}
}

// remove takes a timeout out of a bucket.
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

// keepBuckets is the largest number of buckets in a level for which emptied buckets keep memory for their next
// entries. That is 3.5 MB in all.
const keepBuckets = 1 << 12

// emptied records that the last entry of a bucket has been removed. In a large level the bucket frees its
// memory, because otherwise all buckets together could keep much more than has ever been pending.
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

// findMin makes a bucket's min exact again.
func (l *level) findMin(slot uint64) {
	l.buckets[slot].findMin()
	l.stale.clear(slot)
}

// earliest returns the first tick at which a bucket of the level needs the worker, or bound if that is
// earlier. The hand is at tick now.
func (l *level) earliest(now, bound uint64) uint64 {
	size := uint64(len(l.buckets))
	if size == 0 {
		return bound // it has never been used
	}
	// The hand enters the slots from first to the end of the array, then those before first. This loop
	// uses the same order. base is the block of slot 0 in that part of the turn.
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

// worthScan is the largest number of entries for which earliest scans a bucket for its min. Scanning takes a
// nanosecond for each entry. Not knowing the min costs a spurious wake-up, which takes some microseconds.
// worthScan must not be less than worthWaking. Stats.Wakeups documents it.
const worthScan = 1 << 13

// A bitmap has a bit for each slot of a level.
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
