package hashedwheel

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// If a bucket of an upper level holds many timeouts, wheel.next is the start of the block before theirs. While the
// hand is in that block, they move down in chunks, whatever happens to them meanwhile.
func TestCascadeComesDownInTime(t *testing.T) {
	for _, levels := range []int{2, 3} {
		for _, traffic := range []bool{false, true} {
			const size, n = 16, worthWaking + 10*cascadeChunk
			r := newRand(t)
			w := newWheel(size, levels, 3)
			shift := w.levels[levels-1].shift
			block := uint64(5)
			inBlock := func() uint64 { return block<<shift + r.Uint64N(1<<shift) }
			var all []*Timeout
			for range n {
				tick := inBlock()
				to := testTimeout(tick)
				w.place(to, tick)
				all = append(all, to)
			}
			w.check(t)
			require.Equal(t, (block-1)<<shift, w.next)
			require.False(t, w.cascade(nil), "the entries are not near yet")
			require.Empty(t, collect(t, w, (block-1)<<shift))
			require.Equal(t, w.now+1, w.next)
			early := func(to *Timeout) { t.Fatalf("emitted at %d: %x", w.now, to.word.Load()) }
			for w.cascade(early) {
				w.check(t)
				if !traffic {
					continue
				}
				for range 100 {
					i := r.IntN(len(all))
					to, tick := all[i], inBlock()
					switch r.IntN(4) {
					case 0: // cancel it, and remove it as settle does
						w.remove(to)
						all = slices.Delete(all, i, i+1)
					case 1: // reset it, and move it as settle does
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
			b := &w.levels[levels-1].buckets[block]
			for _, e := range b.all() {
				require.Greater(t, e.tick>>shift, block, "the entry is still on the upper level")
			}
			w.refresh()
			w.check(t)
			require.Greater(t, w.next, w.now+1, "nothing more to do for now")

			due := 0
			for w.count > 0 {
				for _, to := range collect(t, w, w.next) {
					require.Equal(t, w.now, tickOf(to.word.Load()))
					due++
				}
				for w.cascade(early) {
				}
				w.refresh()
			}
			require.Equal(t, len(all), due)
		}
	}
}

// A timeout may have been reset to a tick that has passed when its bucket moves down, and still be on the
// queue. Cascade emits it.
func TestCascadeEmitsWhatIsOverdue(t *testing.T) {
	w := newWheel(16, 2, 0)
	to := testTimeout(20)
	w.place(to, 20)
	require.Equal(t, 1, w.levels[1].buckets[2].len())
	require.Empty(t, collect(t, w, 10))
	to.word.Store(pendingAt(queued, 9))
	var due []*Timeout
	require.False(t, w.cascade(func(to *Timeout) { due = append(due, to) }))
	require.Equal(t, []*Timeout{to}, due)
	require.Zero(t, to.bucket)
	w.check(t)
	require.Zero(t, w.count)
}

// A few timeouts do not wake the worker. They move down when it wakes up for another reason, or are emitted when
// they are due.
func TestCascadeOfFewCanWait(t *testing.T) {
	for _, visit := range []bool{false, true} {
		w := newWheel(16, 2, 0)
		const n = worthWaking
		for range n {
			tick := 24 + rand.Uint64N(8)
			w.place(testTimeout(tick), tick)
		}
		w.place(testTimeout(31), 31)
		w.remove(w.levels[1].buckets[3].at(n).to)
		w.refresh()
		w.check(t)
		require.GreaterOrEqual(t, w.next, uint64(24))
		if visit {
			require.Empty(t, collect(t, w, 17))
			for w.cascade(nil) {
				w.check(t)
			}
			require.Zero(t, w.levels[1].buckets[3].len())
		}
		require.Len(t, collect(t, w, 31), n)
	}
}

// A large bucket needs the worker one block before its own, even if a smaller bucket is due before
// that block.
func TestCascadeChecksPastTheNextBlock(t *testing.T) {
	w := newWheel(16, 2, 0)
	w.place(testTimeout(31), 31)
	for range worthWaking + 1 {
		w.place(testTimeout(32), 32)
	}
	require.EqualValues(t, 24, w.next)
	w.refresh()
	w.check(t)
	require.EqualValues(t, 24, w.next)
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
	for w.cascade(nil) {
		chunks++
		w.check(t)
	}
	require.LessOrEqual(t, chunks, n/cascadeChunk+2)
	require.False(t, w.cascade(nil))
	w.refresh()
	w.check(t)
	require.EqualValues(t, 24, w.next)
	require.Len(t, collect(t, w, 24), 1)
	require.EqualValues(t, later-8, w.next)
}

// A removed entry leaves its bucket with a stale min. The wheel scans the bucket for the true min if the stale min
// would decide when the worker wakes up, which is one block before the min. This also holds if another timeout is
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
		require.EqualValues(t, 36, w.next)
	}
}

// The wheel does not wake the worker for a removed entry, even if its bucket has become large since.
func TestBucketWithStaleMinBecomesLarge(t *testing.T) {
	w := newWheel(16, 2, 0)
	first := testTimeout(40)
	w.place(first, 40)
	for range worthWaking - 1 {
		w.place(testTimeout(40+128), 40+128)
	}
	w.place(testTimeout(36), 36)
	w.remove(first)
	w.check(t)
	w.place(testTimeout(40+128), 40+128)
	w.place(testTimeout(40+128), 40+128)
	w.refresh()
	w.check(t)
	require.EqualValues(t, 36, w.next)
}

// Very many timeouts that are due in later rounds are not checked when the hand is one block before their
// bucket.
func TestLaterRoundsAreNotChecked(t *testing.T) {
	w := newWheel(16, 2, 0)
	const later = 24 + 128
	for range 2 * cascadeChunk {
		w.place(testTimeout(later), later)
	}
	require.Empty(t, collect(t, w, 16))
	require.False(t, w.cascade(nil))
	require.Zero(t, w.levels[1].block, "the bucket was checked")
}
