package pool

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The watch ends when a check could do nothing: nothing waits, no runner may be added, or the pool is closed. Until
// then it would wake the processor up sixteen times a tick.
func TestWatchEnds(t *testing.T) {
	const tick = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		block := func() { <-release }
		start := func(n, limit int, f func()) *fake {
			h := newFake(t, tick)
			h.pool.Procs, h.pool.Limit = 1, limit
			h.fed = true
			h.addFunc(n, f)
			synctest.Wait()
			return h
		}
		h := start(40, 0, nil)
		require.False(t, h.watched(), "all have run")
		require.False(t, h.pool.watch.Stop(), "it was stopped")

		h = start(40, 0, block)
		require.True(t, h.watched(), "others wait")
		pass(2 * tick)
		require.EqualValues(t, 40, h.active.Load())
		require.False(t, h.watched(), "nothing waits")
		require.Zero(t, h.pool.mayAdd, "the next ones that block are new")

		h = start(40, 2, block)
		require.True(t, h.watched(), "another one may be added")
		pass(2 * tick)
		require.Equal(t, 38, h.pool.Waiting())
		require.False(t, h.watched(), "at the limit")

		h = start(40, 0, block)
		require.Len(t, h.close(), 39)
		require.False(t, h.watched(), "closed")
	})
}

// While a runner waits for a processor there is no check, however short the tick is: it would keep the runner from getting
// one. When the runner comes, the checks go on.
func TestWatchIsPatient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFake(t, checksPerTick) // so the interval is a nanosecond
		h.fed = true
		p := &h.pool
		p.starting.Store(1)
		h.addFunc(2, func() { time.Sleep(time.Hour) })
		p.mu.Lock()
		p.setWatch()
		p.mu.Unlock()
		require.False(t, h.watched())
		go p.work()
		synctest.Wait()
		require.True(t, h.watched())
		p.mu.Lock()
		p.starting.Store(1) // another one
		p.mu.Unlock()
		pass(time.Second)
		require.EqualValues(t, 1, h.active.Load())
		require.False(t, h.watched())
		go p.work()
		pass(time.Second)
		require.EqualValues(t, 2, h.active.Load())
	})
}

// Each item that a runner takes counts once as progress.
func TestProgressIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFake(t, time.Hour)
		h.fed = true
		h.pool.Limit = 1 // so the pool is not watched, and the count goes on
		h.addFunc(2*chunkLen+1, nil)
		synctest.Wait()
		require.Equal(t, 2*chunkLen+1, h.pool.taken)
	})
}

// A row of tasks is slow, and each check finds their runner in another one. Others make so much progress meanwhile that
// tasks do not count as slow. All the same, each of the slow ones starts in time.
func TestSlowTasksBesideOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tick = 160 * time.Millisecond // checks come each 10 ms
		h := newFake(t, tick)
		h.pool.Procs = 2
		h.fed = true
		var begun moments
		start := time.Now()
		h.addFunc(chunkLen, func() { begun.note(); time.Sleep(9 * time.Millisecond) })
		for time.Since(start) < 3*tick && len(begun.since(start)) < chunkLen {
			h.addFunc(600, nil) // as many as two runners do that have no slow tasks
			time.Sleep(time.Millisecond)
		}
		all := begun.since(start)
		require.Len(t, all, chunkLen)
		require.LessOrEqual(t, all[chunkLen-1], 2*tick)
	})
}

// The first check that finds tasks slow adds few runners, however many are in tasks that block: the tasks that wait may be
// quick ones of which the processors just do too few.
func TestFirstRunnersAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tick, blocked = 160 * time.Millisecond, 1000
		h := newFake(t, tick)
		h.blind = true
		h.pool.Procs = 1
		h.addFunc(blocked, func() { time.Sleep(time.Hour) })
		pass(tick)
		require.EqualValues(t, blocked, h.active.Load())
		h.fed = true
		h.addFunc(10*chunkLen, func() { time.Sleep(time.Millisecond) })
		synctest.Wait()
		first := h.runners() - blocked // one, or one for each chunk that the last one had taken before the next came
		require.LessOrEqual(t, first, 10)
		for _, more := range []int{growth, growth + growth*growth} {
			pass(h.pool.interval)
			require.Equal(t, blocked+first+more, h.runners())
		}
	})
}

// Where several chunks wait, a check starts as many runners as can be at work, unless the tasks are tiny.
func TestEachChunkHasARunner(t *testing.T) {
	for _, c := range []struct {
		average       time.Duration
		chunks, total int
	}{{tinyTask, 5, 1}, {2 * tinyTask, 1, 1}, {2 * tinyTask, 2, 2}, {2 * tinyTask, 5, 3}} {
		synctest.Test(t, func(t *testing.T) { // so that no check comes but that of the test
			release := make(chan struct{})
			p, f := newLight(time.Hour, func(int) { <-release })
			p.Procs = 3
			for range c.chunks*chunkLen + 1 - chunkLen/2 {
				f.Add(1)
			}
			f.Flush()
			synctest.Wait()
			p.mu.Lock()
			require.Equal(t, c.chunks, p.list.length())
			p.taken = int(p.interval / c.average)
			p.mu.Unlock()
			p.onWatch()
			_, goroutines := p.Running()
			require.Equal(t, c.total, goroutines)
			p.Close()
			close(release)
			synctest.Wait()
		})
	}
}

// Runners that are in tasks that block say nothing about the speed of the others: tasks that return at once still need
// few goroutines. The test runs on real time.
func TestTrivialTasksBesideBlockedOnes(t *testing.T) {
	blocked, n := 3000, sized(50_000, 200_000, 1_000_000)
	release := make(chan struct{})
	var ran atomic.Int64
	p, f := newLight(200*time.Millisecond, func(item int) { // checks come each 10 ms
		if item <= blocked {
			<-release
		}
		ran.Add(1)
	})
	feed := func(from, to int) {
		for item := from; item <= to; item++ {
			f.Add(item)
		}
		f.Flush()
	}
	feed(1, blocked)
	require.Eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.runners) == blocked && !p.watching // so the next ones that block are new
	}, patience, time.Millisecond)
	_, before := p.Running()
	go feed(blocked+1, blocked+n)
	most := 0
	for ran.Load() < int64(n) {
		_, goroutines := p.Running()
		most = max(most, goroutines-before)
		time.Sleep(100 * time.Microsecond)
	}
	t.Logf("%d more goroutines at most", most)
	close(release)
	<-p.UntilIdle()
	require.LessOrEqual(t, most, 400) // the first four additions
}

// Two processors take as many items as they can, beside a thousand runners in tasks that block. So no runner is added.
func TestBlockedRunnersAreNotSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so that no check comes but those of the test
		var p Pool[int]
		p.Init(numbers{}, time.Second, new(Memory[int]))
		const blocked = 1000
		p.Procs, p.runners = 2, make([]*Runner[int], blocked)
		p.list.add(1)
		p.setWatch()
		p.taken += 2 * int(p.interval/slowTask)
		p.onWatch()
		require.Equal(t, blocked, p.total())
		p.list.popFirst()
		p.setWatch()
		require.False(t, p.watching)
	})
}

// Very many tasks meet at a lock, so more runners do not help. Only a few are added, also if the goroutine that has the lock stands
// still for a few checks.
func TestRunnersThatDoNotHelp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tick, n = 16 * time.Millisecond, 20_000
		h := newFake(t, tick)
		h.blind = true
		h.fed = true
		lock := make(chan struct{}, 1)
		var done atomic.Int64
		h.addFunc(n, func() {
			lock <- struct{}{}
			if time.Sleep(slowTask); done.Load()%1000 == 999 {
				time.Sleep((standstill - 1) * h.pool.interval)
			}
			done.Add(1)
			<-lock
		})
		most := 0
		for done.Load() < n {
			time.Sleep(h.pool.interval)
			most = max(most, h.runners())
		}
		synctest.Wait()
		require.Less(t, most, 200)
	})
}
