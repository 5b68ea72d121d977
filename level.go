package hashedwheel

import (
	"iter"
	"math/bits"
)

// A level of the wheel: a bucket for each of the next blocks of 1<<shift ticks. Owned by the worker.
type level struct {
	shift    uint
	buckets  []bucket // nil until the first timeout; then of a length that is a power of two
	occupied bitmap   // which of them have entries
	stale    bitmap   // of which of those the entry due first may have gone
	inUse    int      // how many have entries
	count    int      // entries in all of them

	// How far the block after that of the hand has come down, see cascade.go.
	block uint64 // the one that this is about
	unmet int    // entries of its bucket that have not been looked at
}

func (l *level) init(size int) {
	l.buckets = make([]bucket, size)
	l.occupied = newBitmap(size)
	l.stale = newBitmap(size)
}

// add adds a timeout, which is told its position in the bucket but not the bucket.
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

// keepBuckets is the number of buckets up to which an emptied one keeps memory for its next entries, which is
// 3.5 MB in all.
const keepBuckets = 1 << 12

// emptied notes that the last entry of a bucket has gone. In a large wheel the bucket gives back its memory,
// because all of them together would keep much more than has ever been pending.
func (l *level) emptied(slot uint64) {
	l.occupied.clear(slot)
	l.inUse--
	if len(l.buckets) > keepBuckets {
		l.buckets[slot].first = nil
	}
}

// each ranges over the buckets in use from one slot to before another: the slot, and how many entries
// there are.
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

// findMin finds the entry of a bucket that is due first.
func (l *level) findMin(slot uint64) {
	l.buckets[slot].findMin()
	l.stale.clear(slot)
}

// earliest returns the first tick at which something is to be done, if that comes before bound, and
// otherwise bound. The hand is at tick now.
func (l *level) earliest(now, bound uint64) uint64 {
	size := uint64(len(l.buckets))
	if size == 0 {
		return bound // it has never been used
	}
	// In the order in which the hand enters them: the slots from first to the end of the array,
	// then those before first. base is the block of slot 0 in that part of the turn.
	block := now>>l.shift + 1
	first := block & (size - 1)
	base := block - first
	for _, part := range [2]struct{ from, end, base uint64 }{{first, size, base}, {0, first, base + size}} {
		for slot := l.occupied.next(part.from, part.end); slot < part.end; slot = l.occupied.next(slot+1, part.end) {
			if bound>>l.shift+1 < part.base+slot {
				return bound // whatever follows is later
			}
			b := &l.buckets[slot]
			if l.wanted(slot, now) < bound && l.stale.has(slot) && b.len() <= worthScan {
				l.findMin(slot)
			}
			bound = min(bound, l.wanted(slot, now))
		}
	}
	return bound
}

// worthScan is up to how many entries of a bucket are searched for the one due first. It takes a
// nanosecond for each, and not to know costs a wake-up in vain, which takes some microseconds. It
// must not be less than worthWaking.
const worthScan = 1 << 13

// A bitmap has a bit for each slot of a level.
type bitmap []uint64

func newBitmap(size int) bitmap { return make(bitmap, (size+63)/64) }

func (m bitmap) set(i uint64)      { m[i/64] |= 1 << (i % 64) }
func (m bitmap) clear(i uint64)    { m[i/64] &^= 1 << (i % 64) }
func (m bitmap) has(i uint64) bool { return m[i/64]>>(i%64)&1 != 0 }

// next returns the first bit that is set of those from to end-1, or end.
func (m bitmap) next(from, end uint64) uint64 {
	for from < end {
		if rest := m[from/64] >> (from % 64); rest != 0 {
			return min(end, from+uint64(bits.TrailingZeros64(rest)))
		}
		from = (from/64 + 1) * 64
	}
	return end
}
