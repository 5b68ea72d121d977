package hashedwheel

import (
	"fmt"
	"math/bits"
)

// A wheel keeps timeouts by the tick at which they are due. It is the hashed timing wheel of
// Varghese and Lauck ("Hashed and Hierarchical Timing Wheels", SOSP 1987, scheme 6): an array
// of buckets whose number is a power of two, and a timeout lies in the bucket that its tick
// modulo that number names. What is due in a later turn of the wheel lies there too. Its
// remaining rounds, (tick - now) / size, are neither stored nor counted down: they follow
// from its tick.
//
// It knows neither clock nor goroutine, and ticks are all the time that it has. Owned by the
// worker.
type wheel struct {
	buckets  []bucket
	occupied []uint64 // bit i%64 of word i/64: bucket i has entries
	mask     uint64   // number of buckets - 1
	now      uint64   // every tick up to this one has been expired
	next     uint64   // no entry is due before this tick; neverTick when empty
	count    int      // entries in all buckets
}

// newWheel returns an empty wheel of size buckets, a power of two, at tick now.
func newWheel(size int, now uint64) *wheel {
	return &wheel{
		buckets:  make([]bucket, size),
		occupied: make([]uint64, (size+63)/64),
		mask:     uint64(size - 1),
		now:      now,
		next:     neverTick,
	}
}

// place puts a timeout that is in no bucket into the one of tick, which must lie ahead.
func (w *wheel) place(to *Timeout, tick uint64) {
	if tick <= w.now {
		panic(fmt.Sprintf("hashedwheel: timeout placed at tick %d, but the wheel is at %d", tick, w.now))
	}
	slot := tick & w.mask
	w.buckets[slot].add(tick, to)
	w.occupied[slot/64] |= 1 << (slot % 64)
	to.bucket = uint32(slot) + 1
	w.next = min(w.next, tick)
	w.count++
}

// move makes sure that a timeout in a bucket is looked at by tick. Where that is later than
// the entry says, nothing needs doing: the visit at the entry's tick will move it.
func (w *wheel) move(to *Timeout, tick uint64) {
	if tick < w.buckets[to.bucket-1].entries[to.pos].tick {
		w.remove(to)
		w.place(to, tick)
	}
}

// remove takes a timeout out of its bucket.
func (w *wheel) remove(to *Timeout) {
	slot := uint64(to.bucket - 1)
	b := &w.buckets[slot]
	if int(to.pos) >= len(b.entries) || b.entries[to.pos].to != to {
		panic(fmt.Sprintf("hashedwheel: timeout not found in bucket %d at position %d of %d", slot, to.pos, len(b.entries)))
	}
	last := len(b.entries) - 1
	b.fill(int(to.pos), last)
	b.truncate(last)
	if last == 0 {
		w.occupied[slot/64] &^= 1 << (slot % 64)
	}
	to.bucket = 0
	w.count--
}

// advance moves the wheel on to tick now and passes each timeout that has come due to emit.
// It costs what is due plus, at most, one look at each bucket, however many ticks have
// passed.
func (w *wheel) advance(now uint64, emit func(to *Timeout)) {
	if now <= w.now {
		return
	}
	size := w.mask + 1
	first := (w.now + 1) & w.mask
	end := first + min(now-w.now, size)
	w.now = now
	if now < w.next {
		return
	}
	w.expire(first, min(end, size), emit)
	if end > size {
		w.expire(0, end-size, emit)
	}
	w.next = w.earliest()
}

// expire visits the buckets of the slots from to end-1 that have an entry due.
func (w *wheel) expire(from, end uint64, emit func(to *Timeout)) {
	for slot := w.nextOccupied(from, end); slot < end; slot = w.nextOccupied(slot+1, end) {
		if w.buckets[slot].min <= w.now {
			w.visit(slot, emit)
		}
	}
}

// visit takes the due entries out of a bucket. Those of timeouts that have been reset it
// moves to where they belong, and those of canceled ones, or ones at work, it drops.
func (w *wheel) visit(slot uint64, emit func(to *Timeout)) {
	b := &w.buckets[slot]
	b.min = neverTick
	left := len(b.entries)
	// From the back, so that what fills a gap has been seen.
	for i := left - 1; i >= 0; i-- {
		e := &b.entries[i]
		if e.tick > w.now {
			b.min = min(b.min, e.tick)
			continue
		}
		to := e.to
		word := to.word.Load()
		tick := tickOf(word)
		reset := waits(word) && tick > w.now
		if reset && tick&w.mask == slot {
			e.tick = tick
			b.min = min(b.min, tick)
			continue
		}
		left--
		b.fill(i, left)
		to.bucket = 0
		w.count--
		switch {
		case reset:
			w.place(to, tick)
		case waits(word):
			emit(to)
		}
	}
	b.truncate(left)
	if left == 0 {
		w.occupied[slot/64] &^= 1 << (slot % 64)
	}
}

// earliest returns the first tick at which an entry can be due, neverTick if there is none.
func (w *wheel) earliest() uint64 {
	size := w.mask + 1
	first := (w.now + 1) & w.mask
	next := uint64(neverTick)
	// In the order in which the hand passes them: the slots from first to the end of the
	// array, then those before first. base is the tick of slot 0 in that part of the turn.
	base := w.now + 1 - first
	for _, part := range [2]struct{ from, end, base uint64 }{{first, size, base}, {0, first, base + size}} {
		for slot := w.nextOccupied(part.from, part.end); slot < part.end; slot = w.nextOccupied(slot+1, part.end) {
			next = min(next, w.buckets[slot].min)
			if next <= part.base+slot {
				return next // whatever follows is later
			}
		}
	}
	return next
}

// nextOccupied returns the first slot in from to end-1 whose bucket has entries, or end.
func (w *wheel) nextOccupied(from, end uint64) uint64 {
	for from < end {
		if rest := w.occupied[from/64] >> (from % 64); rest != 0 {
			return min(end, from+uint64(bits.TrailingZeros64(rest)))
		}
		from = (from/64 + 1) * 64
	}
	return end
}
