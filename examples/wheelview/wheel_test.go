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

// until sleeps until a tick boundary, and until everything that is due has run.
func (w *wheel) until(n int) {
	time.Sleep(time.Until(w.start.Add(time.Duration(n) * tick)))
	synctest.Wait()
}

// TestStory is the start of the page: 3.2 s / 20 ms = tick 160, 160 mod 64 = bucket 32.
func TestStory(t *testing.T) {
	virtual(t, func(t *testing.T, w *wheel) {
		id := w.armTick(160, 0)
		require.Equal(t, 1, id)
		w.until(1)
		f := w.frame()
		require.Equal(t, []event{{kind: armed, id: 1, tick: 160}}, f.events)
		require.Equal(t, 1.0, f.now)
		for bucket, n := range f.buckets {
			require.Equal(t, bucket == 32, n == 1, "bucket %d holds %d", bucket, n)
		}

		time.Sleep(159*tick - time.Nanosecond)
		synctest.Wait()
		f = w.frame()
		require.Empty(t, f.events, "the hand has passed the bucket twice")
		require.Equal(t, 1, f.stats.Pending)

		w.until(160)
		f = w.frame()
		require.Equal(t, []event{{kind: fired, id: 1, tick: 160}}, f.events)
		require.Equal(t, uint64(1), f.stats.Expired)
		require.Zero(t, f.early)
		require.False(t, w.cancel(id), "it has fired")
	})
}

// TestCancel is the second part of the story.
func TestCancel(t *testing.T) {
	virtual(t, func(t *testing.T, w *wheel) {
		id := w.armTick(160, 0)
		w.until(10)
		require.True(t, w.cancel(id))
		require.False(t, w.cancel(id), "only one call cancels it")
		require.False(t, w.cancel(99), "there is no such timeout")
		w.until(161)
		f := w.frame()
		require.Equal(t, []int{armed, canceled}, kinds(f.events))
		require.Equal(t, uint64(1), f.stats.Canceled)
		require.Zero(t, f.stats.Expired)
		require.Zero(t, f.stats.Pending)
	})
}

// TestFlood puts a load on the wheel for ten seconds, and lets it run out.
func TestFlood(t *testing.T) {
	virtual(t, func(t *testing.T, w *wheel) {
		w.rate, w.share = 1000, 0.95
		alive := map[int]bool{}
		most := 0
		collect := func(f frame) {
			for _, e := range f.events {
				if alive[e.id] = e.kind == armed; !alive[e.id] {
					delete(alive, e.id)
				}
			}
			most = max(most, len(alive))
		}
		for range 1000 {
			time.Sleep(10 * time.Millisecond)
			collect(w.frame())
		}
		w.rate = 0
		time.Sleep(5 * time.Second)
		synctest.Wait()
		f := w.frame()
		collect(f)
		require.InDelta(t, 10_000, f.stats.Accepted, 1)
		require.Zero(t, f.stats.Pending)
		require.Equal(t, f.stats.Accepted, f.stats.Expired+f.stats.Canceled)
		require.InDelta(t, 9_500, f.stats.Canceled, 150, "seven standard deviations")
		require.Zero(t, f.early)
		require.Empty(t, alive, "each timeout that is shown ends once")
		require.Greater(t, most, 200)
		require.LessOrEqual(t, most, buckets*maxShown)
		require.Equal(t, [buckets]int{}, w.inside)
	})
}

// TestPause looks at a page that was hidden: the load does not make up for it.
func TestPause(t *testing.T) {
	virtual(t, func(t *testing.T, w *wheel) {
		w.rate = 1000
		time.Sleep(time.Hour)
		require.Equal(t, 100, w.frame().stats.Pending)
	})
}

// TestBlock has tasks that block for four seconds while others come due. The others start at their ticks.
func TestBlock(t *testing.T) {
	virtual(t, func(t *testing.T, w *wheel) {
		for i := range 20 {
			w.armTick(25+i, 4*time.Second)
		}
		for n := 26; n < 200; n++ {
			w.armTick(n, 0)
		}
		w.until(200)
		f := w.frame()
		require.Equal(t, 20, f.stats.Running)
		require.Equal(t, uint64(194), f.stats.Expired)
		var others int
		for _, e := range f.events {
			if e.kind == fired {
				others++
				require.LessOrEqual(t, e.late, 2*tick, "at tick %d", e.tick)
			}
		}
		require.Equal(t, 174, others)
		w.until(245)
		f = w.frame()
		require.Zero(t, f.stats.Running)
		require.Len(t, f.events, 20)
		require.Equal(t, released, f.events[0].kind)
	})
}

// TestLateness checks that the page shows the lateness of the last seconds only.
func TestLateness(t *testing.T) {
	virtual(t, func(t *testing.T, w *wheel) {
		w.armTick(10, 0)
		w.until(10)
		require.Equal(t, uint64(1), w.frame().lateness.Count())
		w.until(100)
		require.Equal(t, uint64(1), w.frame().lateness.Count())
		w.until(200)
		require.Zero(t, w.frame().lateness.Count())
	})
}

func kinds(events []event) (k []int) {
	for _, e := range events {
		k = append(k, e.kind)
	}
	return k
}

// TestRace runs in a bubble, where package time is exact, and the wheel is late by up to a tick.
func TestRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var laps []int
		var last [2]score
		require.NoError(t, race(10, 30, func(lap int, s [2]score) { laps, last = append(laps, lap), s }))
		require.Len(t, laps, 30)
		require.Equal(t, 30, laps[29])
		require.Zero(t, last[0], "an operation takes no time in a bubble")
		require.Zero(t, last[1].ns)
		require.Positive(t, last[1].late)
		require.Less(t, last[1].late, tick)
	})
}
