package hashedwheel

import (
	"fmt"
	"math"
)

const (
	// reach bounds how many ticks ahead of the wheel an entry is placed: a tick of 100 ms gives 6.8 years. A
	// timeout that is due later is placed there, and again when the wheel has got there.
	reach = 1 << 31

	pieceSize = 4

	// chunkSize is the number of entries from which a bucket grows by chunks of as many. A chunk and the
	// 8 bytes that the allocator puts before it fill its size class of 6,144 bytes. An array that grows by
	// copying would, for a million entries, be copied several times over.
	chunkPieces = 127
	chunkSize   = chunkPieces * pieceSize

	// keepCap is the number of entries that the array of an emptied bucket may have room for and still
	// be kept for the next ones: less than 1 KiB. A larger one that is hardly used is given back.
	keepCap = 72
)

// An entry is a timeout as it was placed. The timeout may since have been reset to a later
// tick, or been canceled: its word says so. It cannot have become due earlier, because then
// the worker places it anew. So an entry whose tick has not come is not due, and its
// timeout need not be touched to know it.
type entry struct {
	tick uint64
	to   *Timeout
}

// A piece holds four entries in 12 bytes each. Their ticks count from the base of the bucket.
type piece struct {
	to    [pieceSize]*Timeout
	ticks [pieceSize]uint32
}

// A bucket holds the entries of one slot of a level, in no order. They lie in arrays, not in a
// list: a visit runs through memory in sequence, and the garbage collector need not follow
// it timeout by timeout.
//
// A timeout knows its position, so that removing one does not search. The zero bucket is
// empty. Owned by the worker.
type bucket struct {
	first []piece // the first chunkSize entries
	more  *chunks // the others; may be nil if there is none
	n     int     // entries
	base  uint64  // what the ticks of entries count from; of no meaning when empty
	min   uint64  // no entry is due before this tick; of no meaning when empty
}

// chunks are the part of a bucket that lies beyond the first chunkSize entries.
type chunks []*[chunkPieces]piece

func (b *bucket) len() int { return b.n }

// pieces returns the pieces of the array in which a position lies, and the position of its first entry.
func (b *bucket) pieces(pos int) (array []piece, start int) {
	if pos < chunkSize {
		return b.first, 0
	}
	i := pos/chunkSize - 1
	return (*b.more)[i][:], (i + 1) * chunkSize
}

// piece returns the piece in which a position lies, which must be less than len, and the index there.
func (b *bucket) piece(pos int) (p *piece, i int) {
	array, start := b.pieces(pos)
	return &array[(pos-start)/pieceSize], (pos - start) % pieceSize
}

// at returns the entry at a position, which must be less than len.
func (b *bucket) at(pos int) entry {
	p, i := b.piece(pos)
	return entry{b.base + uint64(p.ticks[i]), p.to[i]}
}

// add appends an entry and tells the timeout its position. The tick must lie ahead of now, by no more
// than reach.
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

// rebase has the ticks of entries count from now, because those that are to be added do not fit otherwise.
// An entry that is overdue becomes one that is due now: the wheel is about to visit it in either case.
func (b *bucket) rebase(now uint64) {
	ahead := now - b.base
	for pos := range b.n {
		p, i := b.piece(pos)
		p.ticks[i] -= uint32(min(ahead, uint64(p.ticks[i])))
	}
	b.base = now
}

// remove removes the entry of a timeout, and returns its tick. Min stays as it is: a bound that is too
// low costs a spurious visit, finding a better one costs a scan.
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

// fill moves the last entry to pos, whose own has gone, and tells its timeout.
func (b *bucket) fill(pos, last int) {
	if pos != last {
		p, i := b.piece(pos)
		q, j := b.piece(last)
		p.to[i], p.ticks[i] = q.to[j], q.ticks[j]
		p.to[i].pos = uint32(pos)
	}
}

// truncate forgets all entries but the first n, and gives back what memory is left over. One chunk stays
// for the next entries, so that a bucket which is about full does not make one each time.
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
		b.first = append(make([]piece, 0, 2*used), b.first[:used]...)
	}
}

// forget clears the timeouts at the positions from n to end-1, as far as they lie in an array, or the array
// would keep them alive.
func forget(array []piece, n, end int) {
	n, end = max(n, 0), min(end, len(array)*pieceSize)
	for ; n < end && n%pieceSize != 0; n++ {
		array[n/pieceSize].to[n%pieceSize] = nil
	}
	if n < end {
		clear(array[n/pieceSize : (end+pieceSize-1)/pieceSize])
	}
}

// findMin makes min the tick of the entry that is due first.
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
