package hashedwheel

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

// A wheel keeps timeouts by the tick at which they are due. Each of its levels has size buckets, a power of two.
// Owned by the worker, which passes the current tick.
//
// Level 0 has a bucket for each tick. Each higher level has a bucket for each span of ticks. A span is half a turn of the
// level below, or a bucket if size is 1. A timeout is on the lowest level whose next size spans reach its tick. It moves
// down before the wheel enters its span, or just then: see Cascading below. A timeout beyond the reach of the top level is
// on that level too, in the bucket whose number is its span modulo size. Its remaining rounds follow from its tick.
//
// For example, three levels of 512 buckets, and a tick of 10 ms:
//
//	level 0: a bucket is 1 tick (10 ms), a turn is 512 ticks (5.12 s)
//	level 1: a bucket is 256 ticks (2.56 s), a turn is 131,072 ticks (22 minutes)
//	level 2: a bucket is 65,536 ticks (11 minutes), a turn is 33,554,432 ticks (93 hours)
//
// At tick 1,000 a timeout is placed for tick 101,000. Its span on level 1 is 101,000/256 = 394, and the wheel is in
// span 3, so it goes to bucket 394. While the wheel goes through span 393, from tick 100,608 on, or just after, the
// timeout moves down. It goes to bucket 101,000 modulo 512 = 136 of level 0. With one level it would be there from the
// start.
//
// One level is scheme 6 of Varghese and Lauck ("Hashed and Hierarchical Timing Wheels", SOSP 1987). Several levels
// are like scheme 7, in which a span is a whole turn of the level below, not half of one.
type wheel struct {
	levels    []level
	bits      uint    // size is 1 << bits
	budget    int     // visitBudget, except in tests
	spanShift uint    // 1 << spanShift spans of a level are one span of the level above
	now       uint64  // the tick where the wheel is; except for what is overdue, all its entries have later ticks
	nextVisit uint64  // the first tick with something to do. It may be too early (refresh), and says nothing while isBehind
	count     int     // entries in all buckets
	visits    []visit // not done yet, of buckets whose span has come; the newest last
	free      freeList

	// Immutable once timeouts are placed. A visit calls them, so they must not use the wheel.
	emit   func(to *Timeout)                   // worker.emit: called with each timeout that is due
	putOff func(to *Timeout, word uint64) bool // Timeout.putOff: called before a timeout with a hook is emitted
}

// newWheel returns an empty wheel at tick now. The number of buckets on each level is size, a power of two.
func newWheel(size, levels int, now uint64) *wheel {
	w := &wheel{levels: make([]level, levels), bits: uint(bits.TrailingZeros(uint(size))), now: now, nextVisit: ticks.Never, budget: visitBudget}
	w.spanShift = max(w.bits, 1) - 1
	for i := range w.levels {
		w.levels[i].shift = uint(i) * w.spanShift
	}
	w.levels[0].init(size)
	w.visits = make([]visit, 0, 16) // so that a round with few visits at a time allocates nothing
	w.free = newFreeList()
	return w
}

// placeOf returns the number of a bucket for Timeout.bucket. 0 stands for none.
func (w *wheel) placeOf(level int, index uint64) uint32 {
	return 1 + uint32(level)<<w.bits + uint32(index)
}

func (w *wheel) levelOf(to *Timeout) *level { return &w.levels[(to.bucket-1)>>w.bits] }

func (w *wheel) indexOf(to *Timeout) uint64 { return uint64(to.bucket-1) & (1<<w.bits - 1) }

// locate returns the level for a tick that lies ahead, and the index, which is the number of the bucket there. The next size
// spans of a level have different indexes. The last of them has the same index as the present span. That is no conflict:
// even an unfinished visit of the present span leaves entries of later spans there (goOn).
func (w *wheel) locate(tick uint64) (level int, index uint64) {
	top, size := len(w.levels)-1, uint64(1)<<w.bits
	shift := uint(0)
	for level < top && tick>>shift-w.now>>shift > size {
		level++
		shift += w.spanShift
	}
	return level, tick >> shift & (size - 1)
}

// place puts a timeout that is in no bucket into the bucket for tick, which must lie ahead.
func (w *wheel) place(to *Timeout, tick uint64) {
	if tick <= w.now {
		panicPassed(tick, w.now)
	}
	tick = min(tick, w.now+reach)
	i, index := w.locate(tick)
	l := &w.levels[i]
	if l.buckets == nil {
		l.init(1 << w.bits)
	}
	l.buckets[index].add(w.now, tick, to, &w.free)
	l.added(index)
	to.bucket = w.placeOf(i, index)
	w.nextVisit = min(w.nextVisit, l.neededAt(index, w.now))
	w.count++
}

// Not inlined, because the arguments of Sprintf would make the frame of place larger.
//
//go:noinline
func panicPassed(tick, now uint64) {
	panic(fmt.Sprintf("hashedwheel: timeout placed at tick %d, but the wheel is at %d", tick, now))
}

// move makes sure that the wheel visits a timeout of a bucket by tick. If its entry's tick is not later, move does
// nothing, because the visit at the entry's tick moves the timeout.
func (w *wheel) move(to *Timeout, tick uint64) {
	if at, _ := w.levelOf(to).buckets[w.indexOf(to)].at(int(to.pos)); tick < at {
		w.remove(to)
		w.place(to, tick)
	}
}

func (w *wheel) remove(to *Timeout) {
	l, index := w.levelOf(to), w.indexOf(to)
	l.remove(index, to, &w.free)
	to.bucket = 0
	w.count--
}

// advance turns the wheel to tick now, and emits what is due, as far as visitBudget allows. If isBehind is true then, call
// advance again. It visits a bucket only if a timeout in it may be due or has to move down.
func (w *wheel) advance(now uint64) {
	was := w.now
	w.now = max(was, now)
	// Timeouts of an upper level move down when the wheel enters their span, even if nextVisit is later. If the wheel has
	// entered no new span on a level, it has entered none on the levels above.
	top := 0
	for top < len(w.levels) && was>>w.levels[top].shift != w.now>>w.levels[top].shift {
		top++
	}
	for i := top - 1; i >= 0; i-- { // from the top down, so that the newest visit is of what is due at this tick alone
		if shift := w.levels[i].shift; i > 0 || now >= w.nextVisit {
			w.enterSpans(i, was>>shift+1, w.now>>shift)
		}
	}
	w.goOnAll()
	if w.now >= w.nextVisit && !w.isBehind() { // a visit that is not done would make refresh scan its bucket
		w.refresh()
	}
}

// enterSpans begins to visit the occupied buckets for the spans of a level from first to last.
func (w *wheel) enterSpans(i int, first, last uint64) {
	l := &w.levels[i]
	size := uint64(len(l.buckets))
	if size == 0 {
		return // it has never been used
	}
	for span, end := first, first+min(last-first+1, size); span < end; {
		from := span & (size - 1)
		part := min(from+end-span, size)
		index := l.occupied.Next(from, part)
		span += index - from
		if index == part {
			continue // this was the last part, or the next one begins at bucket 0
		}
		if l.cascades(index) {
			l.comingDown.left = 0 // the visit takes over
			w.visit(i, index)
		} else if !l.visited.Has(index) && w.isDue(i, index) {
			w.visit(i, index)
		}
		span++
	}
}

// isDue reports whether an entry of a bucket may be for a span that has come. The bucket must not be empty.
func (w *wheel) isDue(i int, index uint64) bool {
	l := &w.levels[i]
	return l.buckets[index].min>>l.shift <= w.now>>l.shift
}

// visit begins to visit a bucket that is not being visited.
func (w *wheel) visit(i int, index uint64) {
	l := &w.levels[i]
	l.visited.Set(index)
	w.visits = append(w.visits, w.begin(i, index, w.now>>l.shift))
}

// isBehind reports whether entries are in buckets whose span has come.
func (w *wheel) isBehind() bool { return len(w.visits) > 0 }

// visitBudget is how many entries the worker checks before it checks the clock again. It is too small to make the worker
// late.
const visitBudget = 1 << 10

// goOnAll continues the visits. Half of the entries that it checks are of the newest visits, so that what is due now need
// not wait for millions that were due before. The other half are of the oldest visits, so that these end too.
func (w *wheel) goOnAll() {
	for _, oldest := range [2]bool{false, true} {
		for n := w.budget / 2; n > 0 && len(w.visits) > 0; {
			at := endOf(len(w.visits), oldest)
			v := &w.visits[at]
			l := &w.levels[v.level]
			n -= w.goOn(v, n)
			if v.left > 0 {
				continue
			}
			level, index := v.level, v.index
			if oldest && len(w.visits) > visitBudget {
				w.visits = w.visits[1:] // faster than to move the others
			} else {
				w.visits = slices.Delete(w.visits, at, at+1)
			}
			l.visited.Clear(index)
			if l.buckets[index].n > 0 && w.isDue(level, index) {
				w.visit(level, index) // more has come due meanwhile; behind the others, which must end too
			}
		}
	}
}

// endOf returns the index of the oldest or the newest of n elements.
func endOf(n int, oldest bool) int {
	if oldest {
		return 0
	}
	return n - 1
}

// begin begins a visit.
func (w *wheel) begin(level int, index, last uint64) visit {
	l := &w.levels[level]
	b := &l.buckets[index]
	b.min = math.MaxUint64
	l.stale.Clear(index)
	return visit{level: level, index: index, last: last, left: b.n}
}

// goOn checks up to n entries, and returns how many it has checked. An entry for a later span stays. For the others goOn reads
// the word of the timeout. A timeout that is due is emitted, unless it is put off. A pending one that is due later is placed
// again, or stays if its bucket is the same. Any other is dropped.
func (w *wheel) goOn(v *visit, n int) (checked int) {
	l := &w.levels[v.level]
	b := &l.buckets[v.index]
	if w.now+reach-b.base > math.MaxUint32 {
		b.rebase(w.now) // so that each tick up to now+reach fits
	}
	v.left = min(v.left, b.n) // others may have been removed
	n = min(n, v.left)
	was, left, place := b.n, b.n, w.placeOf(v.level, v.index)
	// Like the ticks of the entries, these count from the base of the bucket. Entries from end on stay, and least is the least
	// of these.
	base, end, least := b.base, (v.last+1)<<l.shift-b.base, uint64(math.MaxUint32)+1
	for pos := v.left - 1; pos >= v.left-n; pos-- {
		p, i := b.piece(pos)
		if tick := uint64(p.ticks[i]); tick >= end {
			least = min(least, tick)
			continue
		}
		to := p.to[i]
		if to.bucket != place {
			to.panicOverwritten()
		}
		word := to.word.Load()
		if word&hooked != 0 && waits(word) && tickOf(word) <= w.now && w.putOff(to, word) {
			word = to.word.Load()
		}
		tick := min(tickOf(word), w.now+reach)
		isLater := waits(word) && tick > w.now
		if isLater {
			j, s := w.locate(tick)
			if j == v.level && s == v.index {
				p.ticks[i] = uint32(tick - base)
				least = min(least, tick-base)
				continue
			}
		}
		left--
		b.fill(pos, left)
		to.bucket = 0
		w.count--
		switch {
		case isLater:
			w.place(to, tick)
		case waits(word):
			w.emit(to)
		}
	}
	v.left -= n
	if least <= math.MaxUint32 {
		b.min = min(b.min, base+least)
	}
	if left < was {
		b.truncate(left, &w.free)
		l.removed(v.index, was-left)
	}
	if v.left == 0 && left > 0 {
		w.nextVisit = min(w.nextVisit, l.neededAt(v.index, w.now))
	}
	return n
}

// Cascading
//
// When the wheel enters the span of a bucket on an upper level, all its timeouts must be on a lower level. A bucket may hold
// millions, and their memory may be in no cache. So the worker moves them while the wheel goes through the span before, a
// few at a time, between the ticks. No timeout of the span is added meanwhile: a turn of the level below is two spans, so
// that level reaches the end of the span. The worker does not wake up for a few entries, which can wait until the wheel
// enters their span: see worthWaking. Without the cascade, the timeouts of a large bucket are late: see
// TestCascadeComesDownInTime.

// cascade moves down some timeouts of the next spans, and emits any that are due. If more is true, call cascade again.
func (w *wheel) cascade() (more bool) {
	budget := w.budget
	for i := 1; i < len(w.levels) && budget > 0; i++ {
		budget -= w.bringDown(i, budget)
	}
	return budget == 0
}

// bringDown is cascade for one level. It checks no more than limit entries, and returns how many it has checked.
func (w *wheel) bringDown(i, limit int) (checked int) {
	l := &w.levels[i]
	span := w.now>>l.shift + 1
	index := span & (1<<w.bits - 1)
	if l.shift == 0 || l.buckets == nil || !l.occupied.Has(index) || l.visited.Has(index) {
		return 0
	}
	if l.comingDown.last != span {
		if l.buckets[index].min>>l.shift > span {
			return 0 // all entries belong to a later turn
		}
		l.comingDown = w.begin(i, index, span)
	}
	return w.goOn(&l.comingDown, limit)
}

// refresh makes nextVisit exact, if that is worth its cost. Before that, nextVisit may be too early, because the first
// timeout was removed.
func (w *wheel) refresh() {
	w.nextVisit = ticks.Never
	for i := range w.levels {
		w.nextVisit = w.levels[i].firstVisit(w.now, w.nextVisit)
	}
}

func (w *wheel) each(f func(to *Timeout)) {
	for i := range w.levels {
		for index := range w.levels[i].buckets {
			b := &w.levels[i].buckets[index]
			for pos := range b.n {
				_, to := b.at(pos)
				f(to)
			}
		}
	}
}

// publishedLevels is the state of the wheel that the worker publishes for Stats, which must not wait for worker.mu.
type publishedLevels struct {
	levels []publishedLevel // one for each level of the wheel; the slice is immutable after New
	wheel  atomic.Bool      // there is a wheel; written last, read first
}

// A publishedLevel holds the state of one level. A reader may see some fields from one store and some from the next.
type publishedLevel struct{ inUse, count atomic.Uint64 }

// store publishes the state of a wheel, nil for none. Called by the owner of the wheel.
func (s *publishedLevels) store(w *wheel) {
	if w != nil {
		for i := range w.levels {
			l, published := &w.levels[i], &s.levels[i]
			change(&published.inUse, uint64(l.inUse))
			change(&published.count, uint64(l.count))
		}
	}
	// After the levels, so that no reader takes those of an earlier wheel for the present ones.
	if s.wheel.Load() != (w != nil) {
		s.wheel.Store(w != nil)
	}
}

// change stores a value, and leaves the cache line to other processors if nothing changes. No other goroutine may write x.
func change(x *atomic.Uint64, to uint64) {
	if x.Load() != to {
		x.Store(to)
	}
}
