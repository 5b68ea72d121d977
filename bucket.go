package hashedwheel

import (
	"fmt"
	"math"
)

// keepCap is the number of entries that the array of an emptied bucket may have and still
// be kept for the next ones: what append makes of 64, some 1 KiB. A larger one that is hardly used is
// given back.
const keepCap = 72

// An entry is a timeout as it was placed. The timeout may since have been reset to a later
// tick, or been canceled: its word says so. It cannot have become due earlier, since for
// that the worker places it anew. So an entry whose tick has not come is not due, and its
// timeout need not be touched to know it.
type entry struct {
	tick uint64
	to   *Timeout
}

// A bucket holds the entries of one slot of a level, in no order. It is an array, not a
// list: a visit runs through memory in sequence, and the garbage collector need not follow
// it timeout by timeout.
//
// A timeout knows its position, so that removing one does not search. The zero bucket is
// empty. Owned by the worker.
type bucket struct {
	entries []entry
	min     uint64 // no entry is due before this tick; of no meaning when empty
}

// add appends an entry and tells the timeout its position.
func (b *bucket) add(tick uint64, to *Timeout) {
	if len(b.entries) == 0 {
		b.min = math.MaxUint64
	}
	b.min = min(b.min, tick)
	to.pos = uint32(len(b.entries))
	b.entries = append(b.entries, entry{tick, to})
}

// remove removes the entry of a timeout, and returns its tick. Min stays as it is: too low a bound
// costs a visit in vain, finding a better one costs a scan.
func (b *bucket) remove(to *Timeout) (tick uint64) {
	pos := int(to.pos)
	if pos >= len(b.entries) || b.entries[pos].to != to {
		panic(fmt.Sprintf("hashedwheel: timeout not found at position %d of %d", pos, len(b.entries)))
	}
	tick = b.entries[pos].tick
	last := len(b.entries) - 1
	b.fill(pos, last)
	b.truncate(last)
	return tick
}

// fill moves the last entry to pos, whose own has gone, and tells its timeout.
func (b *bucket) fill(pos, last int) {
	if pos != last {
		b.entries[pos] = b.entries[last]
		b.entries[pos].to.pos = uint32(pos)
	}
}

// truncate forgets all entries but the first n.
func (b *bucket) truncate(n int) {
	clear(b.entries[n:]) // or the array would keep their timeouts alive
	b.entries = b.entries[:n]
	if c := cap(b.entries); c > keepCap && n < c/8 {
		b.entries = append(make([]entry, 0, 2*n), b.entries...)
	}
}

// findMin makes min the tick of the entry that is due first.
func (b *bucket) findMin() {
	b.min = math.MaxUint64
	for i := range b.entries {
		b.min = min(b.min, b.entries[i].tick)
	}
}
