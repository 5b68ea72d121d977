package pool

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Tasks that wait with a thousand tasks that block, or that are added behind them, start within two ticks. Runners
// that are not in a task end. Later tasks do not wait at all: all runners are in tasks, and so one more starts.
func TestBlockedTasksDelayOthersByTwoTicks(t *testing.T) {
	for _, tick := range []time.Duration{16, time.Millisecond, time.Second} {
		for _, blocked := range []int{1, 50, 1000} {
			synctest.Test(t, func(t *testing.T) {
				r := newRand(t)
				h := newFake(t, tick)
				h.fed = r.IntN(2) == 0
				h.blind = true
				release := make(chan struct{})
				defer close(release)
				start := time.Now()
				var others moments
				var all []*task
				for range 2 * blocked {
					all = append(all, &task{f: others.note})
				}
				for _, i := range r.Perm(2 * blocked)[:blocked] {
					all[i].f = func() { <-release }
				}
				h.add(all...)
				pass(2 * tick)
				require.EqualValues(t, 2*blocked, h.claims.Load())
				require.Len(t, others.since(start), blocked)
				require.Equal(t, blocked, h.runners())

				h.addFunc(1, others.note)
				synctest.Wait()
				require.Equal(t, 2*tick, others.since(start)[blocked])
			})
		}
	}
}

// Tasks that block for a short time each do not delay others. One after another on one runner, their times would
// add up.
func TestManyShortBlocksDoNotAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tick = 10 * time.Millisecond
		h := newFake(t, tick)
		h.blind = true
		start := time.Now()
		var begun moments
		h.addFunc(2000, func() {
			begun.note()
			time.Sleep(tick / 10)
		})
		pass(time.Second)
		all := begun.since(start)
		require.Len(t, all, 2000)
		require.LessOrEqual(t, all[1999], 2*tick)
	})
}

// On real time, very many tasks that do not block run on few runners. If the machine takes the processors away
// for longer than a tick, runners that wait for a processor look stuck, and a growing number is added. So the
// number of runners is small only compared with the number of tasks. A limit that is never reached changes nothing:
// once it meant a goroutine for each task.
func TestTrivialTasksNeedFewRunners(t *testing.T) {
	for _, limit := range []int{0, 1_000_000} {
		n := sized(100_000, 300_000, 1_000_000)
		var ran, most atomic.Int64
		done := make(chan struct{})
		var p *Pool[int]
		p, f := newLight(50*time.Millisecond, func(int) {
			if i := ran.Add(1); i == int64(n) {
				close(done)
			} else if i%10_000 == 0 {
				_, goroutines := p.Running()
				most.Store(max(most.Load(), int64(goroutines)))
			}
		})
		p.Limit = limit
		for item := range n {
			f.Add(item + 1)
		}
		f.Flush()
		<-done
		<-p.UntilIdle()
		require.NotZero(t, most.Load())
		require.LessOrEqual(t, most.Load(), int64(max(n/100, 6000))) // 6000 is more than the first six additions
	}
}

// Tasks that use the processor for long but do not block get no goroutine each. The test runs on real time, because
// virtual time stands still while a task computes.
func TestBusyTasksNeedFewRunners(t *testing.T) {
	n := sized(5000, 20_000, 20_000)
	var ran, most atomic.Int64
	done := make(chan struct{})
	var p *Pool[int]
	p, f := newLight(10*time.Millisecond, func(int) {
		for start := time.Now(); time.Since(start) < 10*time.Microsecond; {
		}
		i := ran.Add(1)
		if i%100 == 0 { // not every task, because they would block each other
			_, goroutines := p.Running()
			most.Store(max(most.Load(), int64(goroutines)))
		}
		if i == int64(n) {
			close(done)
		}
	})
	for item := range n {
		f.Add(item + 1)
	}
	f.Flush()
	<-done
	<-p.UntilIdle()
	t.Logf("most runners at a time: %d", most.Load())
	require.Less(t, most.Load(), int64(n/4))
}

// With a limit of n, never more than n tasks run at the same time, and n do while enough wait. If the limit is
// negative, none does.
func TestLimit(t *testing.T) {
	for _, limit := range []int{-1, 1, 7, 100} {
		synctest.Test(t, func(t *testing.T) {
			h := newFake(t, time.Millisecond)
			h.pool.Limit = limit
			start := time.Now()
			var begun moments
			const n = 250
			all := h.addFunc(n, func() {
				begun.note()
				time.Sleep(time.Second)
			})
			pass(time.Hour)
			if limit < 0 {
				require.Zero(t, h.runners())
				require.Equal(t, all, h.close())
				return
			}
			require.EqualValues(t, limit, h.most.Load())
			first := begun.since(start)[0]
			last := begun.since(start)[n-1]
			require.Equal(t, time.Duration((n-1)/limit)*time.Second, (last - first).Truncate(time.Second))
			require.LessOrEqual(t, last%time.Second, 2*time.Millisecond)
			require.Zero(t, h.runners())
		})
	}
}

// With a limit of one, tasks may share memory without a lock. The race detector checks this.
func TestMaxConcurrencyOfOneOrdersMemory(t *testing.T) {
	h := newFake(t, 100*time.Microsecond)
	h.pool.Limit = 1
	n := 0
	var users sync.WaitGroup
	for range 3 {
		users.Go(func() {
			for range 3000 {
				h.toss(&task{f: func() { n++ }})
			}
		})
	}
	users.Wait()
	<-h.pool.UntilIdle()
	require.Equal(t, 9000, n)
}

// A runner at the limit takes a task that blocks. Then the other runner takes the rest. When the tasks were added the pool was not
// watched, because no runner could be added.
func TestRestAtTheLimit(t *testing.T) {
	const tick = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		h := newFake(t, tick)
		h.pool.Limit = 2
		a, b, c := make(chan struct{}), make(chan struct{}), make(chan struct{})
		h.addFunc(1, func() { <-a })
		h.addFunc(1, func() { <-b })
		pass(5 * tick)
		var begun, ended atomic.Int64
		h.addFunc(11, func() {
			if begun.Add(1) == 1 {
				<-c
			}
			ended.Add(1)
		})
		synctest.Wait()
		require.False(t, h.watched())
		close(a)
		pass(tick)
		require.EqualValues(t, 1, begun.Load())
		close(b)
		synctest.Wait()
		require.EqualValues(t, 10, ended.Load())
		close(c)
	})
}

// Close returns the tasks that wait, on the list or with a runner. None of them starts any more, and the tasks that run go on.
func TestClose(t *testing.T) {
	const tick = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		h := newFake(t, tick)
		h.pool.Limit = 2
		release := make(chan struct{})
		all := h.addFunc(1000, func() { <-release })
		tell := &task{next: func() bool { return true }}
		h.add(tell)
		synctest.Wait()
		rest := h.close()
		require.Len(t, rest, len(all)+1-int(h.active.Load()))
		require.Contains(t, rest, tell)
		h.pool.Add(new(task)) // too late: nobody returns it
		pass(5 * tick)
		require.EqualValues(t, h.active.Load(), h.claims.Load())
		close(release)
		synctest.Wait()
		h.pool.Add(new(task))
		pass(5 * tick)
		require.EqualValues(t, len(all)+1-len(rest), h.claims.Load())
	})
}

// Close also returns a task that is due again while a runner has it, and it does not run again. If Ran returns after
// Close, the host knows that.
func TestCloseReturnsWhatRunsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFake(t, time.Millisecond)
		var w *task
		runs := 0
		w = &task{
			f:    func() { runs++ },
			next: func() bool { time.Sleep(time.Second); return true },
		}
		h.add(w)
		pass(1500 * time.Millisecond)
		require.Equal(t, 2, runs)
		require.Equal(t, ended, w.is())
		require.Empty(t, h.close())
		require.True(t, w.last)
		pass(time.Minute)
		require.Equal(t, 2, runs)
		require.Equal(t, over, w.is())
	})
}

// The channel of UntilIdle is closed when no task runs, and at once if none does.
func TestUntilIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFake(t, time.Millisecond)
		start := time.Now()
		<-h.pool.UntilIdle()
		h.addFunc(100, func() { time.Sleep(time.Second) })
		h.addFunc(1, func() { time.Sleep(time.Minute) })
		idle := h.pool.UntilIdle()
		<-h.pool.UntilIdle()
		<-idle
		require.InDelta(t, time.Minute, time.Since(start), float64(2*time.Millisecond))
		require.Zero(t, h.runners())
	})
}

// Running is exact. While many tasks wait that are about as late as each other, the host is told to measure one of sixteen. It
// measures each of the last ones, and each of those that come alone.
func TestCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFake(t, time.Second)
		h.pool.Limit = 1
		release := make(chan struct{})
		h.addFunc(1, func() { <-release })
		const samples = 40
		h.addFunc(1+samples*sample+sample, func() {
			tasks, goroutines := h.pool.Running()
			require.True(t, tasks == 1 && goroutines == 1)
		})
		close(release)
		synctest.Wait()
		want := slices.Concat([]uint64{1, 1}, slices.Repeat([]uint64{sample}, samples), slices.Repeat([]uint64{1}, sample))
		require.Equal(t, want, h.counted)
		require.Zero(t, h.pool.Waiting())

		for range 10 {
			h.addFunc(1, nil)
			synctest.Wait()
		}
		require.Equal(t, slices.Repeat([]uint64{1}, 10), h.counted[len(want):])
	})
}

// No task is measured any more, because the others that wait are canceled, or because another runner takes them. So those since
// the last one that was count as late as that one.
func TestEachIsCounted(t *testing.T) {
	for _, blocks := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h := newFake(t, time.Second)
			h.fed = true
			h.pool.Limit = 1
			release, blocked := make(chan struct{}), make(chan struct{})
			h.addFunc(1, func() { <-release })
			all := make([]*task, 10+2*sample)
			for i := range all {
				all[i] = new(task)
			}
			if blocks {
				all[9].f = func() { <-blocked }
			}
			h.add(all...)
			if !blocks {
				for _, w := range all[10:] {
					require.True(t, w.move(canceled, waiting))
				}
			}
			close(release)
			synctest.Wait()
			if blocks {
				for _, w := range all[10:] {
					require.True(t, h.remove(w))
				}
				require.Equal(t, []uint64{1, 1}, h.counted)
				close(blocked)
				synctest.Wait()
			}
			require.Equal(t, []uint64{1, 1, 9}, h.counted)
			require.EqualValues(t, 1, h.latest)
		})
	}
}

// When positions wrap around, the pool still works, because it uses only their differences.
func TestPositionsWrap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tick = time.Millisecond
		h := newFake(t, tick)
		h.fed = true
		h.feeder.next = math.MaxUint32 - 5
		release := make(chan struct{})
		all := h.addFunc(50, func() { <-release })
		for _, w := range all[25:] {
			require.True(t, h.remove(w))
		}
		pass(2 * tick)
		require.EqualValues(t, 25, h.active.Load())
		require.Zero(t, h.pool.Waiting())
		close(release)
		synctest.Wait()
		h.addFunc(100, nil)
		synctest.Wait()
		require.EqualValues(t, 125, h.claims.Load())
	})
}

// A channel of Runs is closed when the run is over: the task has returned, and then Ran. There is one for each run in
// progress, and none for a task that does not run.
func TestRuns(t *testing.T) {
	for way, prepare := range ways {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newFake(t, time.Millisecond)
				prepare(h)
				other := &task{f: func() { time.Sleep(time.Hour) }}
				w := &task{f: func() { time.Sleep(time.Second) }, next: func() bool { time.Sleep(time.Minute); return false }}
				require.Empty(t, h.runsOf(w))
				h.add(other)
				synctest.Wait()
				start := time.Now()
				h.add(w)
				synctest.Wait()
				runs := append(h.runsOf(w), h.runsOf(w)...)
				require.Len(t, runs, 2)
				time.Sleep(2 * time.Second)
				for _, over := range runs {
					select {
					case <-over:
						t.Fatal("Ran is in progress")
					default:
					}
				}
				runs = append(runs, h.runsOf(w)...)
				require.Len(t, runs, 3, "Ran is in progress")
				for _, over := range runs {
					<-over
				}
				require.Equal(t, time.Second+time.Minute, time.Since(start))
				require.Empty(t, h.runsOf(w))
				runs = h.runsOf(other)
				require.Len(t, runs, 1)
				<-runs[0]
				require.Equal(t, time.Hour, time.Since(start))
				synctest.Wait()
				require.Empty(t, h.runsOf(other))
			})
		})
	}
}

// The end of a run wakes who waits for it, also if the same task runs again at once.
func TestRunsOfOneThatRunsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFake(t, time.Millisecond)
		runs := 0
		w := &task{f: func() { time.Sleep(time.Second) }, next: func() bool { time.Sleep(time.Second); runs++; return runs < 9 }}
		start := time.Now()
		h.add(w)
		for n := range 4 {
			time.Sleep(time.Second / 2)
			inTask := h.runsOf(w)
			time.Sleep(time.Second)
			inRan := h.runsOf(w)
			require.Len(t, append(inTask, inRan...), 2)
			for _, over := range append(inTask, inRan...) {
				<-over
			}
			require.Equal(t, time.Duration(2*n+2)*time.Second, time.Since(start))
		}
	})
}

// The end of a task wakes who waits for it, also if the runner goes on with the next one.
func TestRunsWhileOthersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFake(t, time.Hour)
		h.pool.Limit = 1
		h.fed = true
		a := &task{f: func() { time.Sleep(1 * time.Nanosecond) }}
		b := &task{f: func() { time.Sleep(2 * time.Nanosecond) }}
		h.add(a, b)
		synctest.Wait()
		h.pool.Remove(a, a.pos) // it runs, so it is too late for that
		start := time.Now()
		runs := h.runsOf(a)
		require.Len(t, runs, 1)
		require.Len(t, h.runsOf(a), 1)
		require.Empty(t, h.runsOf(b))
		require.Equal(t, 1, h.pool.Waiting())
		<-runs[0]
		require.EqualValues(t, 1, time.Since(start))
		synctest.Wait()
		require.Empty(t, h.runsOf(a))
		require.Len(t, h.runsOf(b), 1)
	})
}

// Look says when it first found a run. The next run of the same task, and the next task of the same runner, are others.
func TestLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFake(t, time.Hour)
		h.pool.Limit = 1
		start := time.Now()
		runs := 0
		a := &task{f: func() { time.Sleep(4 * time.Second) }, next: func() bool { runs++; return runs < 2 }}
		b := &task{f: func() { time.Sleep(4 * time.Second) }}
		h.add(a)
		for at, want := range []Sight[*task]{1: {a, 1, 0}, 3: {a, 1, 0}, 5: {a, 5, 0}, 6: {a, 5, 6}, 7: {a, 5, 6}, 9: {b, 9, 0}, 11: {b, 9, 0}} {
			if want.Item == nil {
				continue
			}
			time.Sleep(time.Until(start.Add(time.Duration(at) * time.Second)))
			if want.Awaited == time.Duration(at) {
				h.runsOf(a)
			}
			var found []Sight[*task]
			h.pool.Look(time.Duration(at), func(s Sight[*task]) { found = append(found, s) })
			require.Equal(t, []Sight[*task]{want}, found, at)
			if at == 5 {
				h.add(b) // during the second run of a
			}
		}
		time.Sleep(2 * time.Second)
		h.pool.Look(13, func(Sight[*task]) { require.Fail(t, "nothing runs") })
	})
}

// Runs looks at some of the runners at a time. It misses none whose place changes meanwhile, because another one has
// ended: the test ends each of them at each pause.
func TestWaitMissesNoRun(t *testing.T) {
	const n, some = 7, 2
	for pauses := range n/some + 1 {
		for place := range n {
			var p Pool[int]
			p.Init(numbers{}, time.Second, new(Memory[int]))
			want := map[int]bool{} // the items of the runners that stay
			for item := range n {
				rn := &Runner[int]{pool: &p, place: item, item: item}
				p.runners = append(p.runners, rn)
				want[item] = item != place
			}
			visited, paused := map[int]bool{place: false}, 0
			require.True(t, p.eachRunner(some, func(rn *Runner[int]) {
				visited[rn.item] = rn.item != place
			}, func() bool {
				if paused == pauses {
					p.mu.Lock()
					defer p.mu.Unlock()
					p.dismiss(p.runners[place])
				}
				paused++
				return true
			}))
			require.Equal(t, want, visited, "place %d after pause %d", place, pauses)
		}
	}
}
