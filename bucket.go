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

// chunkSize is the number of entries from which a bucket grows by chunks of as many, 8 KiB. An array
// that grows by copying would, for a million, be copied several times over.
const chunkSize = 512

// A bucket holds the entries of one slot of a level, in no order. They lie in arrays, not in a
// list: a visit runs through memory in sequence, and the garbage collector need not follow
// it timeout by timeout.
//
// A timeout knows its position, so that removing one does not search. The zero bucket is
// empty. Owned by the worker.
type bucket struct {
	entries []entry // the first chunkSize
	more    *chunks // the rest; may be nil if there is none
	min     uint64  // no entry is due before this tick; of no meaning when empty
}

// chunks are the part of a bucket that lies beyond the first chunkSize entries.
type chunks struct {
	arrays []*[chunkSize]entry
	n      int // entries in them
}

func (b *bucket) len() int {
	if b.more == nil {
		return len(b.entries)
	}
	return len(b.entries) + b.more.n
}

// at returns the entry at a position, which must be less than len.
func (b *bucket) at(pos int) *entry {
	array, start := b.array(pos)
	return &array[pos-start]
}

// array returns the array in which a position lies, and the position of its first entry.
func (b *bucket) array(pos int) (array []entry, start int) {
	if pos < chunkSize {
		return b.entries, 0
	}
	i := pos/chunkSize - 1
	return b.more.arrays[i][:], (i + 1) * chunkSize
}

// add appends an entry and tells the timeout its position.
func (b *bucket) add(tick uint64, to *Timeout) {
	n := b.len()
	if n == 0 {
		b.min = math.MaxUint64
	}
	b.min = min(b.min, tick)
	to.pos = uint32(n)
	if n < chunkSize {
		b.entries = append(b.entries, entry{tick, to})
		return
	}
	if b.more == nil {
		b.more = new(chunks)
	}
	m := b.more
	if m.n == len(m.arrays)*chunkSize {
		m.arrays = append(m.arrays, new([chunkSize]entry))
	}
	m.arrays[m.n/chunkSize][m.n%chunkSize] = entry{tick, to}
	m.n++
}

// remove removes the entry of a timeout, and returns its tick. Min stays as it is: too low a bound
// costs a visit in vain, finding a better one costs a scan.
func (b *bucket) remove(to *Timeout) (tick uint64) {
	pos, n := int(to.pos), b.len()
	if pos >= n || b.at(pos).to != to {
		panic(fmt.Sprintf("hashedwheel: timeout not found at position %d of %d", pos, n))
	}
	tick = b.at(pos).tick
	b.fill(pos, n-1)
	b.truncate(n - 1)
	return tick
}

// fill moves the last entry to pos, whose own has gone, and tells its timeout.
func (b *bucket) fill(pos, last int) {
	if pos != last {
		e := b.at(pos)
		*e = *b.at(last)
		e.to.pos = uint32(pos)
	}
}

// truncate forgets all entries but the first n, and gives back what memory is left over.
func (b *bucket) truncate(n int) {
	if b.more != nil {
		b.more.truncate(max(n-chunkSize, 0))
		if n < chunkSize/2 {
			b.more = nil
		}
	}
	if n >= len(b.entries) {
		return
	}
	clear(b.entries[n:]) // or the array would keep their timeouts alive
	b.entries = b.entries[:n]
	if c := cap(b.entries); c > keepCap && n < c/8 {
		b.entries = append(make([]entry, 0, 2*n), b.entries...)
	}
}

// truncate is that of the bucket, for the entries beyond its first array. One array stays for the
// next entries, so that a bucket which is about full does not make one each time.
func (m *chunks) truncate(n int) {
	for m.n > n {
		last := (m.n - 1) / chunkSize
		from := max(n, last*chunkSize)
		clear(m.arrays[last][from-last*chunkSize : m.n-last*chunkSize])
		m.n = from
	}
	if used := (n+chunkSize-1)/chunkSize + 1; used < len(m.arrays) {
		clear(m.arrays[used:])
		m.arrays = m.arrays[:used]
	}
}

// findMin makes min the tick of the entry that is due first.
func (b *bucket) findMin() {
	b.min = math.MaxUint64
	for pos := 0; pos < b.len(); pos += chunkSize {
		array, _ := b.array(pos)
		for i := range array[:min(len(array), b.len()-pos)] {
			b.min = min(b.min, array[i].tick)
		}
	}
}
