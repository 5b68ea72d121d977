package hashedwheel

import (
	"iter"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/testkit"
	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

// The wheel has no clock, and these tests need none.

// check fails the test unless all that the wheel stores about its entries agrees with them. It reports whether
// next is exact, or need not be because a scan would cost too much.
func (w *wheel) check(t testing.TB) (exact bool) {
	t.Helper()
	fail := func(format string, args ...any) { // require is too slow for this
		t.Helper()
		t.Fatalf("at tick %d: "+format, append([]any{w.now}, args...)...)
	}
	all, earliest, size := 0, uint64(ticks.Never), uint64(1)<<w.bits
	large := false // there is a bucket whose first tick is not known, and that is too large to scan
	for i, l := range w.levels {
		if l.buckets != nil && uint64(len(l.buckets)) != size {
			fail("level %d: %d buckets", i, len(l.buckets))
		}
		count, inUse := 0, 0
		for slot := range l.buckets {
			b := &l.buckets[slot]
			if l.occupied.Has(uint64(slot)) != (b.n > 0) {
				fail("level %d: wrong bit of slot %d", i, slot)
			}
			least := uint64(math.MaxUint64)
			unchecked := w.unchecked(i, uint64(slot))
			for pos, e := range b.all() {
				spans := e.tick>>l.shift - w.now>>l.shift                 // how many spans ahead
				overdue := l.visited.Has(uint64(slot)) && e.tick <= w.now // also what was placed during the visit, which begins again then
				switch {
				case i > 0 && l.shift > 0 && l.comingDown.last == w.now>>l.shift+1 && e.tick>>l.shift <= l.comingDown.last && pos >= l.comingDown.left && l.comingDown.index == uint64(slot) && pos >= unchecked:
					fail("level %d, position %d: tick %d has not come down", i, pos, e.tick)
				case e.tick>>l.shift&(size-1) != uint64(slot):
					fail("level %d: tick %d in slot %d", i, e.tick, slot)
				case (e.tick <= w.now || spans == 0) && pos >= unchecked && !l.visited.Has(uint64(slot)):
					fail("level %d: tick %d still there", i, e.tick)
				case spans > size && i < len(w.levels)-1 && !overdue:
					fail("level %d: tick %d is beyond its reach", i, e.tick)
				case w.levelOf(e.to) != &w.levels[i] || w.indexOf(e.to) != uint64(slot) || e.to.pos != uint32(pos):
					fail("level %d, slot %d, position %d: timeout says %d, %d", i, slot, pos, e.to.bucket, e.to.pos)
				}
				if pos >= unchecked {
					least = min(least, e.tick)
				}
			}
			if b.n > 0 && b.min != least && (b.min > least || !l.stale.Has(uint64(slot)) && unchecked == 0) {
				fail("level %d, slot %d: first tick is %d, not %d", i, slot, least, b.min)
			}
			large = large || l.stale.Has(uint64(slot)) && b.n > worthScan
			for to := range b.unused() {
				if to != nil {
					fail("level %d: slot %d keeps a removed timeout", i, slot)
				}
			}
			if i > 0 && l.shift > 0 && b.n > worthWaking { // the worker wakes up one span before
				least = max(w.now+1, (least>>l.shift-1)<<l.shift)
			}
			earliest = min(earliest, least)
			count += b.n
			if b.n > 0 {
				inUse++
			}
		}
		if l.count != count || l.inUse != inUse {
			fail("level %d: count %d in %d buckets, entries %d in %d", i, l.count, l.inUse, count, inUse)
		}
		all += count
	}
	if w.count != all {
		fail("count %d, entries %d", w.count, all)
	}
	if w.nextVisit <= w.now && !w.isBehind() || w.nextVisit > earliest {
		fail("next tick is %d, not %d", earliest, w.nextVisit)
	}
	return w.nextVisit == earliest || large
}

// unchecked returns below which position visits that are in progress have yet to check the entries of a bucket.
func (w *wheel) unchecked(level int, index uint64) (left int) {
	for _, v := range append(slices.Clone(w.overdue), w.levels[level].comingDown) {
		if v.level == level && v.index == index {
			left = max(left, v.left)
		}
	}
	return left
}

// turn advances the wheel until nothing is left to emit.
func (w *wheel) turn(now uint64) {
	for w.advance(now); w.isBehind(); {
		w.advance(now)
	}
}

type entry struct {
	tick uint64
	to   *Timeout
}

func (b *bucket) entry(pos int) entry {
	tick, to := b.at(pos)
	return entry{tick, to}
}

// all returns the entries of a bucket, by position.
func (b *bucket) all() iter.Seq2[int, entry] {
	return func(yield func(int, entry) bool) {
		for pos := range b.n {
			if !yield(pos, b.entry(pos)) {
				return
			}
		}
	}
}

// unused returns the timeouts in the pieces of a bucket after its entries. All should be nil.
func (b *bucket) unused() iter.Seq[*Timeout] {
	return func(yield func(*Timeout) bool) {
		for pos := b.n; pos < b.cap(); pos++ {
			if p, i := b.piece(pos); !yield(p.to[i]) {
				return
			}
		}
	}
}

// cap returns how many entries the pieces of a bucket can hold.
func (b *bucket) cap() int { return len(b.pieces) * pieceSize }

// testTimeout returns a pending timeout due at tick, as the queue hands it to the worker.
func testTimeout(tick uint64) *Timeout {
	to := new(Timeout)
	to.word.Store(pendingAt(0, tick))
	return to
}

// collect advances the wheel, checks each timeout that it emits, and returns them.
func collect(t *testing.T, w *wheel, now uint64) (due []*Timeout) {
	t.Helper()
	w.emit = func(to *Timeout) {
		if word := to.word.Load(); status(word) != pending || tickOf(word) > now || to.bucket != 0 {
			t.Fatalf("emitted at tick %d: word %x, bucket %d", now, word, to.bucket)
		}
		due = append(due, to)
	}
	w.turn(now)
	w.emit = nil // nothing else may be emitted
	w.check(t)
	return due
}

// The test places a timeout for every delay up to several turns of the top level. It starts at each tick of one
// turn, and at the tick after that turn. At each tick the right timeout is due, and no other. The wheel advances
// tick by tick, and in jumps.
func TestWheelEveryTick(t *testing.T) {
	t.Parallel()
	share := newShare(t)
	for _, shape := range []struct{ size, levels, starts uint64 }{
		{1, 1, 3}, {2, 1, 4}, {8, 1, 10}, {64, 1, 66}, {128, 1, 130},
		{1, 3, 3}, {2, 2, 6}, {2, 3, 10}, {2, 4, 18}, {4, 2, 18}, {4, 3, 66}, {4, 4, 12}, {8, 2, 66}, {8, 3, 12}, {64, 2, 3},
	} {
		size, turn := shape.size, uint64(1)
		for range shape.levels {
			turn *= size
		}
		for _, step := range []uint64{1, 3, size, size + 1, turn/2 + 1, 5 * turn} {
			every := sized(max(1, shape.starts/4), max(1, shape.starts/20), 1)
			for i := range share.Rounds(1, int((shape.starts+every-1)/every)) {
				start := uint64(i) * every
				w := newWheel(int(size), int(shape.levels), start)
				last := 4 * turn
				for delay := uint64(1); delay <= last; delay++ {
					w.place(testTimeout(start+delay), start+delay)
				}
				w.check(t)
				for from := start; from < start+last; from += step {
					var got, want []uint64
					for tick := from + 1; tick <= min(from+step, start+last); tick++ {
						want = append(want, tick)
					}
					w.emit = func(to *Timeout) { got = append(got, tickOf(to.word.Load())) }
					w.turn(from + step)
					slices.Sort(got)
					if !slices.Equal(want, got) {
						t.Fatalf("%+v, start %d, from tick %d by %d: due %d, emitted %d", shape, start, from, step, want, got)
					}
					if from%3 == 0 {
						w.emit = nil
						w.cascade()
					}
					if from-start < 2*turn && from%size < 2 || from%turn < 2 {
						w.check(t) // only sometimes, because it takes long
					}
				}
				w.check(t)
				require.Zero(t, w.count)
				require.Equal(t, uint64(ticks.Never), w.nextVisit)
			}
		}
	}
}

// The wheel does not wake the worker for a removed timeout, unless finding the next one costs more than a
// spurious wake-up.
func TestWheelForgetsWhatWasRemoved(t *testing.T) {
	for levels, numbers := range map[int][]int{1: {1, 2, worthScan, worthScan + 1}, 3: {1, 2, worthWaking}} {
		for _, n := range numbers {
			w := newWheel(16, levels, 0)
			first := testTimeout(1000)
			w.place(first, 1000)
			for range n {
				w.place(testTimeout(1000+16), 1000+16)
			}
			w.remove(first)
			w.refresh()
			w.check(t)
			if n <= worthScan {
				require.EqualValues(t, 1016, w.nextVisit)
			} else {
				require.EqualValues(t, 1000, w.nextVisit)
				require.Empty(t, collect(t, w, 1000))
				require.EqualValues(t, 1016, w.nextVisit)
			}
			require.Len(t, collect(t, w, 1016), n)
		}
	}
}

// A removed entry leaves its bucket with a stale min. The wheel scans the bucket for the true min if the stale min
// would decide when the worker wakes up, which is one span before the min. This also holds if another timeout is
// due between that wake-up and the min.
func TestStaleMinOfALargeBucket(t *testing.T) {
	const later = 40 + 128 // the same bucket, a turn later
	for _, refresh := range []bool{false, true} {
		w := newWheel(16, 2, 0)
		first := testTimeout(40)
		w.place(first, 40)
		for range worthWaking {
			w.place(testTimeout(later), later)
		}
		w.place(testTimeout(14), 14)
		w.remove(first)
		if refresh {
			w.refresh()
		}
		w.place(testTimeout(later), later) // makes the bucket large
		w.check(t)
		require.Empty(t, collect(t, w, 13))
		w.place(testTimeout(36), 36)
		require.Len(t, collect(t, w, 14), 1)
		w.refresh()
		w.check(t)
		require.EqualValues(t, 36, w.nextVisit)
	}
}

// The largest wheel reaches the last tick, and no level's shift is too large for a tick. A worker that visits
// only the tick that next names misses no timeout. It finds one due each time, except that timeouts beyond the
// reach are visited on the way.
func TestWheelReachesAllTicks(t *testing.T) {
	sizes := []int{1, 2, 64, maxWheelSize}
	for _, size := range sized(sizes[:3], sizes[:3], sizes) {
		w := newWheel(size, maxLevels, 1)
		var all []uint64
		for tick := uint64(2); tick < ticks.Never; tick = 3*tick + 1 {
			all = append(all, tick)
			w.place(testTimeout(tick), tick)
		}
		w.place(testTimeout(ticks.Never-1), ticks.Never-1)
		w.check(t)
		for _, tick := range append(all, ticks.Never-1) {
			if tick > reach {
				require.LessOrEqual(t, w.nextVisit, tick)
				require.Empty(t, collect(t, w, tick-1))
			}
			require.Equal(t, tick, w.nextVisit)
			due := 0
			w.emit = func(*Timeout) { due++ }
			w.turn(tick)
			require.Equal(t, 1, due)
		}
	}
}

func TestWheelPlacedInThePastPanics(t *testing.T) {
	w := newWheel(8, 1, 5)
	require.PanicsWithValue(t, "hashedwheel: timeout placed at tick 5, but the wheel is at 5", func() { w.place(testTimeout(5), 5) })
}

func TestWheelRemovedTwicePanics(t *testing.T) {
	w := newWheel(8, 1, 0)
	a, b := testTimeout(3), testTimeout(3)
	w.place(a, 3)
	w.place(b, 3)
	bucket, pos := a.bucket, a.pos
	w.remove(a)
	a.bucket, a.pos = bucket, pos
	require.Panics(t, func() { w.remove(a) })
}

// The test does, at random, everything that the worker does to a wheel. It compares the wheel with a list that it
// searches from end to end, and checks all invariants after each step.
func TestWheelModel(t *testing.T) {
	share := newShare(t)
	for _, shape := range []struct{ size, levels int }{
		{1, 1}, {2, 1}, {16, 1}, {64, 1}, {256, 1}, {1, 2}, {2, 2}, {16, 2}, {64, 2}, {2, 3}, {8, 3}, {2, 4}, {4, 4}, {2, 8},
	} {
		r := newRand(t)
		w := newWheel(shape.size, shape.levels, r.Uint64N(1000))
		bottom := uint64(shape.size) // the reach of the lowest level
		delay := func() uint64 {
			if r.IntN(20) == 0 { // up to several times the reach of an entry
				return 1 + r.Uint64N(1<<r.IntN(36))
			}
			reach := bottom
			for range r.IntN(shape.levels) {
				reach *= uint64(shape.size)
			}
			return 1 + r.Uint64N(5*reach)
		}
		var model []*Timeout // the pending timeouts in the wheel, each due at the tick of its word

		for range share.Rounds(500, sized(1000, 5000, 200_000)) {
			var any *Timeout
			if len(model) > 0 {
				any = model[r.IntN(len(model))]
			}
			switch op := r.IntN(10); {
			case op < 4 || any == nil:
				to := testTimeout(w.now + delay())
				w.place(to, tickOf(to.word.Load()))
				model = append(model, to)
			case op < 5: // cancel it, and remove it as reconcile does
				w.remove(any)
				model = slices.DeleteFunc(model, func(to *Timeout) bool { return to == any })
			case op < 6: // cancel it and do not call the wheel
				any.word.Store(withStatus(any.word.Load(), canceled))
				model = slices.DeleteFunc(model, func(to *Timeout) bool { return to == any })
			case op < 7: // reset it, and move it as reconcile does
				tick := w.now + delay()
				any.word.Store(pendingAt(0, tick))
				w.move(any, tick)
			case op < 8: // reset it to later and do not call the wheel
				any.word.Store(pendingAt(0, tickOf(any.word.Load())+delay()))
			default:
				now := w.now + r.Uint64N(2*reach)
				if r.IntN(10) == 0 {
					now = w.now + delay()
				}
				got := make(map[*Timeout]bool)
				for _, to := range collect(t, w, now) {
					got[to] = true
				}
				model = slices.DeleteFunc(model, func(to *Timeout) bool {
					due := tickOf(to.word.Load()) <= now
					require.Equal(t, due, got[to], "timeout due at %d, wheel at %d", tickOf(to.word.Load()), now)
					delete(got, to)
					return due
				})
				require.Empty(t, got, "emitted, but not pending, or twice")
			}
			w.check(t)
			if r.IntN(8) == 0 {
				w.cascade()
				w.check(t)
			}
			if r.IntN(4) == 0 { // as the worker does before it goes idle
				w.refresh()
				require.True(t, w.check(t))
			}
		}
		require.Len(t, collect(t, w, w.now+1<<40), len(model))
		require.Zero(t, w.count)
	}
}

// After a burst in one bucket, neither the bucket nor the free list keeps much, whichever way the bucket is emptied.
func TestBucketGivesMemoryBack(t *testing.T) {
	fill := func() (*wheel, []*Timeout) {
		w := newWheel(8, 1, 0)
		var all []*Timeout
		for range 10_000 {
			to := testTimeout(6)
			w.place(to, 6)
			all = append(all, to)
		}
		return w, all
	}
	w, _ := fill()
	require.Len(t, collect(t, w, 6), 10_000)
	require.Zero(t, w.levels[0].buckets[6].cap())
	require.LessOrEqual(t, cap(w.levels[0].buckets[6].pieces), keepPieces)
	require.Len(t, w.free.pieces, freeListLen)

	w, all := fill()
	for i, to := range all {
		w.remove(to)
		left := len(all) - 1 - i
		require.LessOrEqual(t, w.levels[0].buckets[6].cap(), left+pieceSize)
		require.LessOrEqual(t, cap(w.levels[0].buckets[6].pieces), max(left+2*pieceSize, keepPieces))
	}
	require.Len(t, w.free.pieces, freeListLen)
	w.check(t)
}

// A bucket that is never empty may be in use for longer than the ticks of entries can count from one base.
func TestWheelOldBucket(t *testing.T) {
	w := newWheel(8, 1, 0)
	to := testTimeout(8)
	w.place(to, 8)
	for range 8 {
		due := w.nextVisit + reach
		to.word.Store(pendingAt(0, due)) // reset to later and do not call the wheel
		require.Empty(t, collect(t, w, w.nextVisit))
		require.Equal(t, due, w.nextVisit)
	}
	require.Equal(t, []*Timeout{to}, collect(t, w, w.nextVisit))
}

// The example in wheel.go is correct.
func TestWheelExample(t *testing.T) {
	w := newWheel(512, 3, 1000)
	to := testTimeout(101_000)
	w.place(to, 101_000)
	require.Equal(t, w.placeOf(1, 394), to.bucket)
	collect(t, w, 100_607)
	w.cascade()
	require.Equal(t, w.placeOf(1, 394), to.bucket)
	collect(t, w, 100_608)
	w.cascade()
	require.Equal(t, w.placeOf(0, 136), to.bucket)
	require.Empty(t, collect(t, w, 100_999))
	require.Len(t, collect(t, w, 101_000), 1)

	w = newWheel(512, 1, 1000)
	w.place(to, 101_000)
	require.Equal(t, w.placeOf(0, 136), to.bucket)
	for round := range 195 {
		require.Empty(t, collect(t, w, w.now+512), "round %d", round)
	}
	require.Len(t, collect(t, w, w.now+512), 1)
}

// A large wheel does not keep memory in each bucket that has been in use.
func TestEmptiedBucketsKeepLittle(t *testing.T) {
	for _, size := range []int{keepBuckets, 2 * keepBuckets} {
		w := newWheel(size, 1, 0)
		w.emit = func(*Timeout) {}
		var last *Timeout
		for range size {
			for range 30 {
				last = testTimeout(w.now + 1)
				w.place(last, w.now+1)
			}
			w.remove(last)
			w.turn(w.now + 1)
			w.place(last, w.now+1)
			w.remove(last)
		}
		kept := 0
		for slot := range w.levels[0].buckets {
			kept += cap(w.levels[0].buckets[slot].pieces)
		}
		if size > keepBuckets {
			require.Zero(t, kept)
		} else {
			require.GreaterOrEqual(t, kept, size)
			require.LessOrEqual(t, kept, keepPieces*size)
		}
	}
}

// The visit of a bucket takes longer than a turn of the wheel. What it has not checked yet, and comes due meanwhile in the same
// bucket, is emitted too.
func TestVisitThatTakesATurn(t *testing.T) {
	for _, order := range [][2]uint64{{5, 1}, {1, 5}} { // the visit goes from the end: in the second order it has checked some that come due at its end
		w := newWheel(4, 1, 0)
		w.chunk = 2
		const n = 20
		for _, tick := range order {
			for range n {
				w.place(testTimeout(tick), tick)
			}
		}
		emitted := 0
		w.emit = func(*Timeout) { emitted++ }
		for tick := range uint64(5) {
			w.advance(tick)
			w.check(t)
		}
		require.Less(t, emitted, n)
		require.True(t, w.isBehind())
		w.turn(5)
		require.Equal(t, 2*n, emitted)
		w.check(t)
	}
}

// Where a visit takes longer than a turn, there is one visit of a bucket at a time. It begins again at its end if more has come due.
func TestVisitsDoNotPileUp(t *testing.T) {
	for _, size := range []uint64{1, 4} {
		w := newWheel(int(size), 1, 0)
		w.chunk = 2
		const n, turns = 100, 20
		for range n {
			w.place(testTimeout(1e6), 1e6) // size divides it, so all are in one bucket
		}
		due := 0
		w.emit = func(*Timeout) { due++ }
		for range turns {
			w.place(testTimeout(w.now+size), w.now+size)
			for range size {
				w.advance(w.now + 1)
				w.check(t)
				require.LessOrEqual(t, len(w.overdue), 1)
			}
		}
		steps := 0
		for ; w.isBehind(); steps++ {
			w.advance(w.now)
		}
		require.Equal(t, turns, due)
		require.LessOrEqual(t, steps, 3*(n+turns)/w.chunk+2)
		w.check(t)
	}
}

// At a tick at which the wheel also enters a span of an upper level, the timeouts that are due wait neither for that span nor for
// an older backlog.
func TestDueWhereASpanBegins(t *testing.T) {
	w := newWheel(16, 2, 0) // a span of level 1 has 8 ticks
	w.chunk = 2
	const n, backlogAt, at = 100, 15, 16
	place := func(n int, tick uint64) {
		for range n {
			w.place(testTimeout(tick), tick)
		}
	}
	place(n, backlogAt)
	place(n, at+7) // on level 1, in the span that begins at tick 16
	w.emit = func(*Timeout) {}
	w.advance(9)
	place(1, at)
	w.advance(backlogAt)
	require.True(t, w.isBehind())
	due := false
	w.emit = func(to *Timeout) { due = due || tickOf(to.word.Load()) == at }
	w.advance(at)
	require.True(t, due)
	require.Len(t, w.overdue, 2)
	w.turn(at + 7)
	w.check(t)
	require.Zero(t, w.count)
}

// If a bucket of an upper level holds many timeouts, wheel.nextVisit is the start of the span before theirs. While the
// wheel is in that span, they move down in chunks, whatever happens to them meanwhile.
func TestCascadeComesDownInTime(t *testing.T) {
	for _, levels := range []int{2, 3} {
		for _, traffic := range []bool{false, true} {
			const size, n = 16, worthWaking + 10*visitChunk
			r := newRand(t)
			w := newWheel(size, levels, 3)
			shift := w.levels[levels-1].shift
			span := uint64(5)
			inSpan := func() uint64 { return span<<shift + r.Uint64N(1<<shift) }
			var all []*Timeout
			for range n {
				tick := inSpan()
				to := testTimeout(tick)
				w.place(to, tick)
				all = append(all, to)
			}
			w.check(t)
			require.Equal(t, (span-1)<<shift, w.nextVisit)
			require.False(t, w.cascade(), "the entries are not near yet")
			require.Empty(t, collect(t, w, (span-1)<<shift))
			require.Equal(t, w.now+1, w.nextVisit)
			for w.cascade() {
				w.check(t)
				if !traffic {
					continue
				}
				for range 100 {
					i := r.IntN(len(all))
					to, tick := all[i], inSpan()
					switch r.IntN(4) {
					case 0: // cancel it, and remove it as reconcile does
						w.remove(to)
						all = slices.Delete(all, i, i+1)
					case 1: // reset it, and move it as reconcile does
						to.word.Store(pendingAt(0, tick))
						w.move(to, tick)
					case 2: // reset it to a later turn of the level and do not call the wheel
						to.word.Store(pendingAt(0, tick+size<<shift))
					default:
						all = append(all, testTimeout(tick))
						w.place(all[len(all)-1], tick)
					}
				}
				w.check(t)
			}
			b := &w.levels[levels-1].buckets[span]
			for _, e := range b.all() {
				require.Greater(t, e.tick>>shift, span, "the entry is still on the upper level")
			}
			w.refresh()
			w.check(t)
			require.Greater(t, w.nextVisit, w.now+1, "nothing more to do for now")

			due := 0
			for w.count > 0 {
				for _, to := range collect(t, w, w.nextVisit) {
					require.Equal(t, w.now, tickOf(to.word.Load()))
					due++
				}
				for w.cascade() {
				}
				w.refresh()
			}
			require.Equal(t, len(all), due)
		}
	}
}

// Timeouts that stay on the top level for a later round are checked once. Then the worker may sleep.
func TestCascadeEnds(t *testing.T) {
	w := newWheel(16, 2, 0)
	const n, later = 2 * worthWaking, 24 + 3*16*8
	for range n {
		w.place(testTimeout(later), later)
	}
	w.place(testTimeout(24), 24)
	require.Empty(t, collect(t, w, 16))
	chunks := 1
	for w.cascade() {
		chunks++
		w.check(t)
	}
	require.LessOrEqual(t, chunks, n/visitChunk+2)
	require.False(t, w.cascade())
	w.refresh()
	w.check(t)
	require.EqualValues(t, 24, w.nextVisit)
	require.Len(t, collect(t, w, 24), 1)
	require.EqualValues(t, later-8, w.nextVisit)
}

// Very many timeouts that are due in later rounds are not checked when the wheel is one span before their
// bucket.
func TestLaterRoundsAreNotChecked(t *testing.T) {
	w := newWheel(16, 2, 0)
	const later = 24 + 128
	for range 2 * visitChunk {
		w.place(testTimeout(later), later)
	}
	require.Empty(t, collect(t, w, 16))
	require.False(t, w.cascade())
	require.Zero(t, w.levels[1].comingDown.last, "the bucket was checked")
}

// Placing timeouts in as many buckets as the free list has pieces needs no allocation, not even the first time.
func TestPlacingAllocatesNothing(t *testing.T) {
	wheels := []*wheel{newWheel(512, 1, 0), newWheel(512, 1, 0)} // AllocsPerRun calls the function once before it counts
	all := make([]Timeout, 2*pieceSize*freeListLen)
	require.Zero(t, testing.AllocsPerRun(1, func() {
		for i := range pieceSize * freeListLen {
			wheels[0].place(&all[i], uint64(1+i%freeListLen))
		}
		wheels, all = wheels[1:], all[pieceSize*freeListLen:]
	}))
}

// FuzzWheel compares the wheel alone with a list, and checks the invariants of the wheel after each step.
func FuzzWheel(f *testing.F) {
	f.Add([]byte{3, 2, 0, 0, 1, 9, 0, 2, 200, 9, 5, 3, 0, 9, 200})
	f.Add([]byte{0, 0, 1, 0, 0, 3, 0, 1, 7, 7, 9, 9, 9, 9, 9, 9, 9, 1, 1})
	f.Add([]byte{2, 3, 2, 0, 2, 77, 0, 1, 12, 0, 0, 1, 4, 0, 5, 0, 1, 9, 2, 33, 8, 8, 9, 2, 200})
	f.Fuzz(func(t *testing.T, data []byte) {
		p := testkit.NewTape(data)
		size, levels := uint64(1)<<p.Below(7), 1+p.Below(5)
		start := []uint64{0, 1000, ticks.Never - 500, 1<<32 - 100}[p.Below(4)]
		w := newWheel(int(size), levels, start)
		w.chunk = 2 + 2*p.Below(8)
		var model []*Timeout // the timeouts in the wheel that are pending
		// delay returns up to three times the reach of a level, but not beyond ticks.Never.
		delay := func() uint64 {
			reach := size
			for range p.Below(levels + 1) {
				reach *= size
			}
			d := 1 + uint64(p.Below(1<<16))%(3*reach)
			return min(d, ticks.Never-w.now)
		}
		drop := func(to *Timeout) {
			model = slices.DeleteFunc(model, func(other *Timeout) bool { return other == to })
		}
		emits := func(now uint64) {
			w.emit = func(to *Timeout) {
				if word := to.word.Load(); !waits(word) || tickOf(word) > now {
					t.Fatalf("emitted at tick %d: word %x", now, word)
				}
				drop(to)
			}
		}
		for !p.Empty() {
			op := p.Below(11)
			var any *Timeout
			if len(model) > 0 && op >= 3 && op < 8 {
				any = model[p.Below(len(model))]
			}
			switch {
			case op < 3:
				to := testTimeout(w.now + delay())
				w.place(to, tickOf(to.word.Load()))
				model = append(model, to)
			case op < 8 && any == nil:
			case op == 3: // cancel it, and remove it as reconcile does
				w.remove(any)
				drop(any)
			case op == 4: // cancel it and do not call the wheel
				any.word.Store(withStatus(any.word.Load(), canceled))
				drop(any)
			case op == 5: // set atWork and do not call the wheel
				any.word.Store(any.word.Load() | atWork)
				drop(any)
			case op == 6: // reset it, and move it as reconcile does
				tick := w.now + delay()
				any.word.Store(pendingAt(0, tick))
				w.move(any, tick)
			case op == 7: // reset it to later and do not call the wheel
				tick := tickOf(any.word.Load())
				any.word.Store(pendingAt(0, tick+min(delay(), ticks.Never-tick)))
			case op == 8:
				emits(w.now)
				w.cascade()
				if w.emit = nil; !w.isBehind() {
					w.refresh()
				}
			case op == 9: // some of what is due
				now := w.now + min(delay(), ticks.Never-1-w.now)
				emits(now)
				w.advance(now)
				w.emit = nil
			default:
				now := w.now + min(delay(), ticks.Never-1-w.now)
				got := collect(t, w, now)
				var want []*Timeout
				model = slices.DeleteFunc(model, func(to *Timeout) bool {
					due := tickOf(to.word.Load()) <= now
					if due {
						want = append(want, to)
					}
					return due
				})
				require.ElementsMatch(t, want, got)
			}
			w.check(t)
		}
	})
}
