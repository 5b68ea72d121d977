package main

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// virtual runs a test in a bubble, with a new wheel.
func virtual(t *testing.T, test func(t *testing.T, w *wheel)) {
	synctest.Test(t, func(t *testing.T) {
		w, err := newWheel()
		require.NoError(t, err)
		defer w.stop()
		test(t, w)
	})
}

// at sleeps until a tick boundary, and returns what the page draws then.
func (w *wheel) at(n int) frame {
	time.Sleep(time.Until(w.start.Add(time.Duration(n) * tick)))
	synctest.Wait()
	return w.frame()
}

// TestStory is the start of the page: 3.2 s / 20 ms = tick 160, 160 mod 64 = bucket 32.
func TestStory(t *testing.T) {
	virtual(t, func(t *testing.T, w *wheel) {
		id := w.armTick(160, 0)
		f := w.at(1)
		require.Equal(t, []event{{kind: armed, id: id, tick: 160}}, f.events)
		require.Equal(t, 1.0, f.now)
		for bucket, n := range f.buckets {
			require.Equal(t, bucket == 32, n == 1, "bucket %d holds %d", bucket, n)
		}
		time.Sleep(159*tick - 1)
		synctest.Wait()
		require.Equal(t, 1, w.frame().stats.Pending, "the hand has passed the bucket twice")

		f = w.at(160)
		require.Equal(t, []event{{kind: fired, id: id, tick: 160}}, f.events)
		require.Zero(t, f.early)
		require.False(t, w.cancel(id), "it has fired")
		require.Equal(t, uint64(1), w.at(260).lateness.Count())
		require.Zero(t, w.at(400).lateness.Count(), "the lateness is that of the last seconds")
	})
}

// TestCancel is the second part of the story.
func TestCancel(t *testing.T) {
	virtual(t, func(t *testing.T, w *wheel) {
		to, err := w.arm(w.start.Add(160*tick), 0)
		require.NoError(t, err)
		w.at(10)
		require.True(t, w.cancel(to.id))
		require.False(t, w.answer(to), "only one call cancels it")
		require.False(t, w.cancel(99), "there is no such timeout")
		f := w.at(161)
		require.Len(t, f.events, 1)
		require.Equal(t, canceled, f.events[0].kind)
		require.Equal(t, uint64(1), f.stats.Canceled)
		require.Zero(t, f.stats.Expired)
	})
}

// TestFlood puts a load on the wheel for ten seconds, and lets it run out.
func TestFlood(t *testing.T) {
	virtual(t, func(t *testing.T, w *wheel) {
		w.rate, w.share = 1000, 0.95
		alive, most := map[int]bool{}, 0
		for n := 1; n <= 750; n++ {
			if n > 500 {
				w.rate = 0
			}
			for _, e := range w.at(n).events {
				if delete(alive, e.id); e.kind == armed {
					alive[e.id] = true
				}
			}
			most = max(most, len(alive))
		}
		f := w.frame()
		require.InDelta(t, 10_000, f.stats.Accepted, 1)
		require.Equal(t, f.stats.Accepted, f.stats.Expired+f.stats.Canceled)
		require.InDelta(t, 9_500, f.stats.Canceled, 150, "seven standard deviations")
		require.Zero(t, f.early)
		require.Empty(t, alive, "each timeout that is shown ends once")
		require.Greater(t, most, buckets*maxShown/2)
		require.LessOrEqual(t, most, buckets*maxShown)
		require.Equal(t, [buckets]int{}, w.inside)
		require.Empty(t, w.shown)

		w.rate = 1000
		time.Sleep(time.Hour) // the page is hidden
		require.Equal(t, 100, w.frame().stats.Pending, "the load does not make up for the pause")
	})
}

// TestBlock has tasks that block for four seconds while others come due. The others start at their ticks.
func TestBlock(t *testing.T) {
	virtual(t, func(t *testing.T, w *wheel) {
		for n := 25; n < 200; n++ {
			if w.armTick(n, 0); n < 45 {
				w.armTick(n, 4*time.Second)
			}
		}
		f := w.at(200)
		require.Equal(t, 20, f.stats.Running)
		others := 0
		for _, e := range f.events {
			if e.kind == fired {
				others++
				require.LessOrEqual(t, e.late, 2*tick, "at tick %d", e.tick)
			}
		}
		require.Equal(t, 175, others)
		f = w.at(245)
		require.Len(t, f.events, 20)
		require.Equal(t, released, f.events[0].kind)
	})
}
