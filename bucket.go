package hashedwheel

import (
	"fmt"
	"math"
)

const (
	// reach is the largest number of ticks by which an entry is placed ahead of the wheel. With a tick of
	// 100 ms, that is 6.8 years. A timeout that is due later is placed so far ahead, and placed again when
	// the wheel gets there.
	reach = 1 << 31

	pieceSize = 4

	// chunkSize is the number of entries in a chunk. A bucket with that many entries grows by whole chunks.
	// A chunk and the 8 bytes that the allocator puts before it fill its size class of 6,144 bytes. With a
	// million entries, an array that grows by copying would have copied its entries several times.
	chunkPieces = 127
	chunkSize   = chunkPieces * pieceSize

	// keepCap is the largest capacity, in entries, of an array that a bucket keeps when few entries or none
	// are left. That is less than 1 KiB. A bucket gives back a larger array if less than 1/8 of it is used.
	keepCap = 72
)

// An entry is a timeout with the tick for which it was placed. The timeout may since have been reset to a
// later tick, or been canceled: its word says so. Unless it is on the queue, it is not due before the entry's
// tick, because the worker moves a timeout that is reset to an earlier tick. So if the entry's tick has not
// come, the timeout is not due, and the worker knows this without touching the timeout.
type entry struct {
	tick uint64
	to   *Timeout
}

// A piece holds four entries, of 12 bytes each. Their ticks count from the base of the bucket.
type piece struct {
	to    [pieceSize]*Timeout
	ticks [pieceSize]uint32
}

// A bucket holds the entries of one slot of a level, in no order. They lie in arrays, not in a
// list, because a visit then reads memory in sequence, and the garbage collector does not follow a
// link for each timeout.
//
// A timeout knows its position, so removing one needs no search. The zero bucket is
// empty. Owned by the worker.
type bucket struct {
	first []piece // the first chunkSize entries
	more  *chunks // the other entries; may be nil if there are none
	n     int     // the number of entries
	base  uint64  // the tick from which the ticks of entries count; undefined when empty
	min   uint64  // no entry is due before this tick; undefined when empty
}

// chunks holds the entries of a bucket after the first chunkSize ones.
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

// piece returns the piece in which a position lies, and the index in that piece. The position must be
// less than len, or lie in the room that grow has made.
func (b *bucket) piece(pos int) (p *piece, i int) {
	array, start := b.pieces(pos)
	return &array[(pos-start)/pieceSize], (pos - start) % pieceSize
}

// at returns the entry at a position, which must be less than len.
func (b *bucket) at(pos int) entry {
	p, i := b.piece(pos)
	return entry{b.base + uint64(p.ticks[i]), p.to[i]}
}

// add appends an entry and sets the timeout's position. The tick must lie ahead of now, by at most
// reach.
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

// rebase makes the ticks of entries count from now, because later ticks would not fit otherwise. An overdue
// entry gets the tick now, which changes nothing: the wheel is about to visit it in either case.
func (b *bucket) rebase(now uint64) {
	ahead := now - b.base
	for pos := range b.n {
		p, i := b.piece(pos)
		p.ticks[i] -= uint32(min(ahead, uint64(p.ticks[i])))
	}
	b.base = now
}

// remove removes the entry of a timeout and returns its tick. It does not change min. A min that is too
// low costs a spurious visit, and an exact one would cost a scan now.
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

// fill moves the last entry to pos, where the entry has been removed, and sets its timeout's position.
func (b *bucket) fill(pos, last int) {
	if pos != last {
		p, i := b.piece(pos)
		q, j := b.piece(last)
		p.to[i], p.ticks[i] = q.to[j], q.ticks[j]
		p.to[i].pos = uint32(pos)
	}
}

// truncate keeps the first n entries and frees memory that is no longer needed. One unused chunk stays for
// the next entries, so that a bucket whose length varies around a multiple of chunkSize does not allocate
// one each time.
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

// forget clears the entries at positions n to end-1, counted from the start of the array, as far as they lie
// in it. Otherwise the array would keep their timeouts alive.
func forget(array []piece, n, end int) {
	n, end = max(n, 0), min(end, len(array)*pieceSize)
	for ; n < end && n%pieceSize != 0; n++ {
		array[n/pieceSize].to[n%pieceSize] = nil
	}
	if n < end {
		clear(array[n/pieceSize : (end+pieceSize-1)/pieceSize])
	}
}

// findMin sets min to the tick of the entry that is due first.
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
