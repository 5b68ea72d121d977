package hashedwheel

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The wheel has no clock, and neither have these tests.

// check fails unless everything that the wheel knows about its entries is as they say.
func (w *wheel) check(t *testing.T) {
	t.Helper()
	assert := func(ok bool, format string, args ...any) { // require is too slow for this
		if !ok {
			t.Helper()
			t.Fatalf("at tick %d: "+format, append([]any{w.now}, args...)...)
		}
	}
	count, earliest := 0, uint64(neverTick)
	for slot, b := range w.buckets {
		assert(w.occupied[slot/64]>>(slot%64)&1 == 1 == (len(b.entries) > 0), "wrong bit of slot %d", slot)
		for pos, e := range b.entries {
			assert(e.tick&w.mask == uint64(slot), "tick %d in slot %d", e.tick, slot)
			assert(e.tick > w.now, "tick %d still there", e.tick)
			assert(e.tick >= b.min, "tick %d below %d in slot %d", e.tick, b.min, slot)
			assert(e.to.bucket == uint32(slot)+1 && e.to.pos == uint32(pos), "slot %d, position %d: timeout says %d, %d", slot, pos, e.to.bucket-1, e.to.pos)
			earliest = min(earliest, e.tick)
		}
		for _, e := range b.entries[len(b.entries):cap(b.entries)] {
			assert(e.to == nil, "slot %d keeps what was removed", slot)
		}
		count += len(b.entries)
	}
	assert(w.count == count, "count %d, entries %d", w.count, count)
	assert(w.now < w.next && w.next <= earliest, "next tick is %d, not %d", earliest, w.next)
}

// testTimeout returns a pending timeout due at tick, as the queue hands it to the worker.
func testTimeout(tick uint64) *Timeout {
	to := new(Timeout)
	to.word.Store(pendingAt(0, tick))
	return to
}

// collect advances the wheel and returns what it emits, having checked that each is right.
func collect(t *testing.T, w *wheel, now uint64) (due []*Timeout) {
	t.Helper()
	w.advance(now, func(to *Timeout) {
		if word := to.word.Load(); status(word) != pending || tickOf(word) > now || to.bucket != 0 {
			t.Fatalf("emitted at tick %d: word %x, bucket %d", now, word, to.bucket)
		}
		due = append(due, to)
	})
	w.check(t)
	return due
}

// Every delay up to several turns, from the starting ticks of a turn and one more: one timeout
// is due at each tick, and it is the right one. Tick by tick, and in jumps.
func TestWheelEveryTick(t *testing.T) {
	for _, size := range []uint64{1, 2, 8, 64, 128} {
		for _, step := range []uint64{1, 3, size, size + 1, 5 * size} {
			for start := uint64(0); start < size+2; start += max(1, size/16-1) {
				w := newWheel(int(size), start)
				turns := 4 * size
				for delay := uint64(1); delay <= turns; delay++ {
					w.place(testTimeout(start+delay), start+delay)
				}
				w.check(t)
				for from := start; from < start+turns; from += step {
					var got, want []uint64
					for tick := from + 1; tick <= min(from+step, start+turns); tick++ {
						want = append(want, tick)
					}
					for _, to := range collect(t, w, from+step) {
						got = append(got, tickOf(to.word.Load()))
					}
					slices.Sort(got)
					if !slices.Equal(want, got) {
						t.Fatalf("size %d, start %d, from tick %d by %d: due %d, emitted %d", size, start, from, step, want, got)
					}
				}
				require.Zero(t, w.count)
				require.Equal(t, uint64(neverTick), w.next)
			}
		}
	}
}

// Whoever only ever looks at the tick named by next misses nothing, and is not sent in vain
// unless something has been removed.
func TestWheelNextTick(t *testing.T) {
	for _, size := range []int{1, 4, 64, 512} {
		for start := range uint64(66) {
			w := newWheel(size, start)
			ticks := []uint64{start + 1, start + 2, start + 63, start + 64, start + 65, start + 511, start + 512, start + 513, start + 100_000}
			for _, tick := range ticks {
				w.place(testTimeout(tick), tick)
			}
			for _, tick := range ticks {
				require.Equal(t, tick, w.next, "size %d, start %d", size, start)
				require.Empty(t, collect(t, w, tick-1))
				require.Len(t, collect(t, w, tick), 1)
			}
			require.Equal(t, uint64(neverTick), w.next)
		}
	}
}

// A stall of any length costs one look at each bucket: this one would not end otherwise.
func TestWheelCatchesUpAtOnce(t *testing.T) {
	w := newWheel(512, 0)
	const far = 1 << 58
	w.place(testTimeout(7), 7)
	w.place(testTimeout(far), far)
	w.place(testTimeout(far+1), far+1)
	require.Len(t, collect(t, w, far), 2)
	require.Equal(t, uint64(far+1), w.next)
	require.Len(t, collect(t, w, far+1), 1)
}

func TestWheelNeverTick(t *testing.T) {
	w := newWheel(8, 0)
	to := testTimeout(neverTick)
	w.place(to, neverTick)
	require.Equal(t, uint64(neverTick), w.next)
	require.Empty(t, collect(t, w, neverTick-1))
	require.Equal(t, uint64(neverTick), w.next)
	w.remove(to)
	w.check(t)
	require.Zero(t, w.count)
}

func TestWheelPlacedInThePastPanics(t *testing.T) {
	w := newWheel(8, 5)
	require.PanicsWithValue(t, "hashedwheel: timeout placed at tick 5, but the wheel is at 5", func() { w.place(testTimeout(5), 5) })
}

func TestWheelRemovedTwicePanics(t *testing.T) {
	w := newWheel(8, 0)
	a, b := testTimeout(3), testTimeout(3)
	w.place(a, 3)
	w.place(b, 3)
	bucket, pos := a.bucket, a.pos
	w.remove(a)
	a.bucket, a.pos = bucket, pos
	require.Panics(t, func() { w.remove(a) })
}

// All that the worker does to a wheel, at random, against a list that is searched from end to
// end, with all invariants checked after each step.
func TestWheelModel(t *testing.T) {
	for _, size := range []int{1, 2, 16, 64, 256} {
		r := newRand(t)
		w := newWheel(size, r.Uint64N(1000))
		delay := func() uint64 { return 1 + r.Uint64N(uint64(5*size)) }
		var model []*Timeout // those in the wheel and pending, each due at the tick of its word

		for range 5000 {
			var any *Timeout
			if len(model) > 0 {
				any = model[r.IntN(len(model))]
			}
			switch op := r.IntN(10); {
			case op < 4 || any == nil:
				to := testTimeout(w.now + delay())
				w.place(to, tickOf(to.word.Load()))
				model = append(model, to)
			case op < 5: // canceled, and removed by way of the queue
				w.remove(any)
				model = slices.DeleteFunc(model, func(to *Timeout) bool { return to == any })
			case op < 6: // canceled, and the wheel not told
				any.word.Store(withStatus(any.word.Load(), canceled))
				model = slices.DeleteFunc(model, func(to *Timeout) bool { return to == any })
			case op < 7: // reset by way of the queue
				tick := w.now + delay()
				any.word.Store(pendingAt(0, tick))
				w.move(any, tick)
			case op < 8: // reset to later, and the wheel not told
				any.word.Store(pendingAt(0, tickOf(any.word.Load())+delay()))
			default:
				now := w.now + r.Uint64N(uint64(2*size))
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
		}
		require.Len(t, collect(t, w, w.now+1<<40), len(model))
		require.Zero(t, w.count)
	}
}

// A burst in one bucket leaves no large array behind, however the bucket empties.
func TestBucketGivesMemoryBack(t *testing.T) {
	fill := func() (*wheel, []*Timeout) {
		w := newWheel(4, 0)
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
	require.LessOrEqual(t, cap(w.buckets[2].entries), keepCap)

	w, all := fill()
	for i, to := range all {
		w.remove(to)
		left := len(all) - 1 - i
		require.LessOrEqual(t, cap(w.buckets[2].entries), max(8*(left+1), keepCap), "%d left", left)
	}
	require.LessOrEqual(t, cap(w.buckets[2].entries), keepCap)
	w.check(t)
}
