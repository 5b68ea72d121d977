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

// A runner at the limit takes a batch, and the first task of the batch blocks. Then the other runner gets the rest.
// When the tasks were added the pool was not watched, because no runner could be added.
func TestBatchTakenAtTheLimit(t *testing.T) {
	const tick = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		h := newFake(t, tick)
		h.pool.Limit, h.pool.MinBatch = 2, 2
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

// Close returns the tasks that wait. A task may wait on the list, or a runner may have taken it alone or in a batch.
// None of them starts any more, and the tasks that run go on.
func TestClose(t *testing.T) {
	const tick = time.Millisecond
	for _, batch := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h := newFake(t, tick)
			h.pool.Limit = 2
			h.pool.slow = !batch
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

// Running is exact while runners hold batches. The host is told to measure the first, 9th, 73rd and last task of each batch.
func TestCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFake(t, time.Second)
		h.pool.Procs, h.pool.Limit = 1, 1
		h.fed = true
		const all = 3*chunkLen + 32
		h.addFunc(all, func() {
			tasks, goroutines := h.pool.Running()
			require.True(t, tasks == 1 && goroutines == 1)
		})
		synctest.Wait()
		chunk := []uint64{1, chunkLen - 1}
		require.Equal(t, slices.Concat(chunk, chunk, chunk, []uint64{1, 31}), h.counted, "3 full batches, and one of 32")
		require.Zero(t, h.pool.Waiting())
		h.pool.list.check(t) // that the chunks of the batches keep nothing

		for range 10 { // no batches
			h.addFunc(1, nil)
			synctest.Wait()
		}
		require.Equal(t, slices.Repeat([]uint64{1}, 10), h.counted[3*2+2:])
	})
}

// No task of a batch is measured any more, because the last ones are canceled, or because the rest is taken back. So those
// since the last one that was count as late as that one, when the runner has done its tasks.
func TestEachIsCounted(t *testing.T) {
	for _, stuck := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h := newFake(t, time.Second)
			h.pool.Procs, h.pool.Limit = 1, 1
			h.fed = true
			all := make([]*task, 32)
			for i := range all {
				all[i] = new(task)
			}
			if stuck {
				all[20].f = func() { time.Sleep(time.Second) }
			}
			for _, w := range all[21:] {
				require.True(t, stuck || w.move(canceled, waiting))
			}
			h.add(all...)
			pass(time.Second / 2)
			if !stuck {
				require.Equal(t, []uint64{1, 20}, h.counted)
				require.EqualValues(t, 0, h.latest)
				return
			}
			require.Equal(t, []uint64{1}, h.counted)
			require.Zero(t, h.batches())
			pass(time.Second)
			require.Equal(t, append([]uint64{1, 20}, slices.Repeat([]uint64{1}, 11)...), h.counted, "slow tasks come alone")
		})
	}
}

// A task that is canceled just before it starts is not measured. The next one is, so that none is left out.
func TestNextOneIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFake(t, time.Second)
		h.pool.Procs, h.pool.Limit = 1, 1
		h.fed = true
		all := make([]*task, 32)
		for i := range all {
			all[i] = new(task)
		}
		require.True(t, all[0].move(canceled, waiting))
		h.add(all...)
		synctest.Wait()
		require.Equal(t, []uint64{1, 30}, h.counted)
	})
}

// When positions wrap around, the pool still works, because it uses only their differences.
func TestPositionsWrap(t *testing.T) {
	for _, fed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			const tick = time.Millisecond
			h := newFake(t, tick)
			h.fed = fed
			p := &h.pool
			p.list.next = math.MaxUint32 - 5
			h.feeder.next = p.list.next
			release := make(chan struct{})
			all := h.addFunc(50, func() { <-release })
			for _, w := range all[25:] {
				require.True(t, h.remove(w))
			}
			pass(2 * tick)
			require.EqualValues(t, 25, h.active.Load())
			require.Zero(t, p.Waiting())
			close(release)
			synctest.Wait()
			h.addFunc(100, nil)
			synctest.Wait()
			require.EqualValues(t, 125, h.claims.Load())
		})
	}
}

// A channel of RunsOf is closed when the run is over: the task has returned, and then Ran. There is one for each run in
// progress, and none for a task that does not run.
func TestRunsOf(t *testing.T) {
	for way, prepare := range ways {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newFake(t, time.Millisecond)
				prepare(h)
				other := &task{f: func() { time.Sleep(time.Hour) }}
				w := &task{f: func() { time.Sleep(time.Second) }, next: func() bool { time.Sleep(time.Minute); return false }}
				require.Empty(t, h.pool.RunsOf(w))
				h.add(other)
				synctest.Wait()
				start := time.Now()
				h.add(w)
				synctest.Wait()
				runs := append(h.pool.RunsOf(w), h.pool.RunsOf(w)...)
				require.Len(t, runs, 2)
				time.Sleep(2 * time.Second)
				for _, over := range runs {
					select {
					case <-over:
						t.Fatal("Ran is in progress")
					default:
					}
				}
				runs = append(runs, h.pool.RunsOf(w)...)
				require.Len(t, runs, 3, "Ran is in progress")
				for _, over := range runs {
					<-over
				}
				require.Equal(t, time.Second+time.Minute, time.Since(start))
				require.Empty(t, h.pool.RunsOf(w))
				runs = h.pool.RunsOf(other)
				require.Len(t, runs, 1)
				<-runs[0]
				require.Equal(t, time.Hour, time.Since(start))
				synctest.Wait()
				require.Empty(t, h.pool.RunsOf(other))
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
			inTask := h.pool.RunsOf(w)
			time.Sleep(time.Second)
			inRan := h.pool.RunsOf(w)
			require.Len(t, append(inTask, inRan...), 2)
			for _, over := range append(inTask, inRan...) {
				<-over
			}
			require.Equal(t, time.Duration(2*n+2)*time.Second, time.Since(start))
		}
	})
}

// The end of a task wakes who waits for it, also if the runner goes on with the next of its batch.
func TestRunsOfInABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFake(t, time.Hour) // no check takes the batch away
		h.pool.Limit, h.pool.MinBatch = 1, 2
		h.fed = true
		a := &task{f: func() { time.Sleep(1 * time.Nanosecond) }}
		b := &task{f: func() { time.Sleep(2 * time.Nanosecond) }}
		h.add(a, b)
		synctest.Wait()
		h.pool.Remove(a, a.pos) // it runs, so it is too late for that
		start := time.Now()
		runs := h.pool.RunsOf(a)
		require.Len(t, runs, 1)
		require.Len(t, h.pool.RunsOf(a), 1)
		require.Empty(t, h.pool.RunsOf(b))
		require.Equal(t, 1, h.pool.Waiting(), "the rest of the batch was taken back")
		require.EqualValues(t, 1, h.pool.TakenBack(), "once")
		<-runs[0]
		require.EqualValues(t, 1, time.Since(start))
		synctest.Wait()
		require.Empty(t, h.pool.RunsOf(a))
		require.Len(t, h.pool.RunsOf(b), 1)
	})
}

// To wait for a task stops no runner but its own, however many tasks block. A stopped runner loses its batch, and has to
// take the lock.
func TestRunsOfStopsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFake(t, time.Millisecond)
		all := make([]*task, 1000)
		for i := range all {
			all[i] = &task{f: func() { time.Sleep(time.Hour) }}
			h.add(all[i])
		}
		time.Sleep(time.Second)
		countStopped := func() (n int) {
			h.pool.mu.Lock()
			defer h.pool.mu.Unlock()
			require.Equal(t, len(all), len(h.pool.runners))
			for _, rn := range h.pool.runners {
				if rn.taken.Load() >= stopped {
					n++
				}
			}
			return n
		}
		before := countStopped() // those whose batch was taken back
		require.Less(t, before, 100)
		require.Len(t, h.pool.RunsOf(all[500]), 1)
		require.LessOrEqual(t, countStopped(), before+1)
		require.Empty(t, h.pool.batched, "what every Remove and check goes through")
	})
}

// RunsOf looks at some of the runners at a time. It misses none whose place changes meanwhile, because another one has
// ended: the test ends each of them at each pause.
func TestWaitMissesNoRun(t *testing.T) {
	const n, some = 7, 2
	for pauses := range n/some + 1 {
		for place := range n {
			var p Pool[int]
			p.Init(numbers{}, time.Second, new(Memory[int]))
			want := map[int]bool{} // the items of the runners that stay
			for item := range n {
				rn := &Runner[int]{pool: &p, place: item, entries: []int{item}}
				p.runners = append(p.runners, rn)
				want[item] = item != place
			}
			visited, paused := map[int]bool{place: false}, 0
			require.True(t, p.eachRunner(some, func(rn *Runner[int]) {
				visited[rn.entries[0]] = rn.entries[0] != place
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

// To remove an item takes back the batch that has it, and no other. The other items of the batch go back to the list.
func TestRemoveTakesBackTheBatch(t *testing.T) {
	var p Pool[int]
	p.Init(numbers{}, time.Second, new(Memory[int]))
	for i := range 3 {
		k := p.memory.chunk(uint32(2 * i))
		k.put(2*i + 1) // at position 2i
		k.put(2*i + 2)
		rn := &Runner[int]{pool: &p, batch: k, entries: k.items, place: i}
		p.runners, p.batched = append(p.runners, rn), append(p.batched, rn)
	}
	all := slices.Clone(p.runners)
	p.Remove(7, 1)
	require.Equal(t, all, p.batched, "another item had this position")
	p.Remove(4, 3)
	require.Equal(t, []*Runner[int]{all[0], all[2]}, p.batched)
	require.Equal(t, []int{3}, p.list.items())
	p.Remove(2, 1)
	p.Remove(5, 4)
	require.Empty(t, p.batched)
	require.Equal(t, []int{1, 3, 6}, p.Close())
}

// A runner takes an entry when its batch is taken back. If the runner comes first, the entry is its own. Otherwise the runner
// does not get it, and finds the item on the list.
func TestEntryHasOneOwner(t *testing.T) {
	for _, first := range []bool{false, true} {
		var p Pool[int]
		p.Init(numbers{}, time.Second, new(Memory[int]))
		for i := range 3 {
			p.list.add(i + 1) // at position i
		}
		p.MinBatch = 2
		p.starting.Store(1)
		rn := p.enlist()
		defer p.watch.Stop()
		require.Equal(t, 1, rn.Next())
		if first {
			require.Equal(t, 2, rn.Next())
		}
		p.Remove(3, 2)
		require.Empty(t, p.batched)
		if first {
			require.Equal(t, 2, rn.takenOf())
			require.Zero(t, rn.entries[0], "its task is over")
			require.Zero(t, p.list.n)
		} else {
			require.Equal(t, 1, rn.takenOf())
			require.Equal(t, []int{2}, p.list.items())
			require.Equal(t, 2, rn.Next())
			require.Nil(t, rn.batch)
		}
		p.Remove(2, 1)
		require.Equal(t, 2, rn.last())
		require.Equal(t, []int{2}, p.Close(), "too late")
	}
}

// A runner that was stopped takes no other entry, even before the items are on the list again.
func TestStoppedRunnerTakesNoEntry(t *testing.T) {
	var p Pool[int]
	p.Init(numbers{}, time.Second, new(Memory[int]))
	p.MinBatch = 2
	p.list.add(1)
	p.list.add(2)
	p.starting.Store(1)
	rn := p.enlist()
	require.Equal(t, 1, rn.Next())
	require.Equal(t, 1, rn.stop())
	require.Zero(t, rn.Next())
	require.Empty(t, p.runners)
}
