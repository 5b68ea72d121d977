package keyed

import (
	"maps"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// While the locks of all shards are held, expired is called for each key, and at most one task of each shard waits. The others
// leave their keys to it. The test runs on real time, because the tasks wait for a mutex.
func TestTasksDoNotWaitForTheLock(t *testing.T) {
	var calls atomic.Int64
	for name, expired := range map[string]func(int, int){"nil": nil, "function": func(int, int) { calls.Add(1) }} {
		t.Run(name, func(t *testing.T) {
			timer, err := hashedwheel.New(hashedwheel.WithTick(time.Millisecond))
			require.NoError(t, err)
			defer timer.Stop()
			m := New(timer, expired)
			m.shards = m.shards[:1] // so that to take them out needs several locks
			s := &m.shards[0]
			const n = 10_000
			for key := range n {
				require.NoError(t, m.Set(key, key, time.Second))
			}
			require.NoError(t, m.Set(n, n, time.Hour))
			s.mu.Lock()
			require.Eventually(t, func() bool { return timer.Stats().Expired == n }, time.Minute, time.Millisecond)
			require.Eventually(t, func() bool { return timer.Stats().Running <= 1 }, 10*time.Second, time.Millisecond)
			if expired != nil {
				require.EqualValues(t, n, calls.Load())
			}
			var lens sync.WaitGroup
			for range 4 {
				lens.Go(func() { assert.Equal(t, 1, m.Len(), "Len does not count what has yet to be taken out") })
			}
			time.Sleep(10 * time.Millisecond) // so that they wait
			s.mu.Unlock()
			lens.Wait()
			require.Eventually(t, func() bool { return timer.Stats().Running == 0 }, time.Minute, time.Millisecond)
			require.Nil(t, s.leaving.Load())
			require.Len(t, s.items, 1)
			value, ok := m.Remove(n)
			require.True(t, ok)
			require.Equal(t, n, value)
		})
	}
}

// While calls of expired are in progress, Len does not count their keys, and their items do not keep each other in memory.
func TestItemsDuringTheirCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t)
		release := make(chan struct{})
		m := New(timer, func(int, int) { <-release })
		m.shards = m.shards[:1]
		var items []*item[int, int]
		for key := range 3 {
			require.NoError(t, m.Set(key, key, tick))
			items = append(items, m.shards[0].items[key])
		}
		time.Sleep(3 * tick)
		synctest.Wait()
		require.Equal(t, 3, timer.Stats().Running)
		require.Zero(t, m.Len())
		require.Empty(t, m.shards[0].items)
		for _, it := range items {
			require.Same(t, it, it.below.Load())
		}
		close(release)
		synctest.Wait()
	})
}

// A key whose call is over is taken out, although its goroutine goes on with the calls for keys that have waited.
func TestKeysLeaveBetweenCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t)
		first, second := make(chan struct{}), make(chan struct{})
		m := New(timer, func(key, _ int) {
			if key == 1 {
				<-first
			} else {
				<-second
			}
		}, WithConcurrency(1))
		other := 2
		for m.shard(other) == m.shard(1) {
			other++
		}
		require.NoError(t, m.Set(1, 1, tick))
		time.Sleep(2 * tick)
		require.NoError(t, m.Set(other, 2, tick))
		time.Sleep(3 * tick)
		close(first)
		synctest.Wait()
		require.Equal(t, 1, timer.Stats().Running)
		require.Empty(t, m.shard(1).items)
		close(second)
		synctest.Wait()
	})
}

// Timer.Tasks yields the tasks of a Map. A loop that runs them ends no key.
func TestRunOfWhatTasksYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t)
		made := time.Now()
		var calls []time.Duration
		m := New(timer, func(int, int) { calls = append(calls, time.Since(made)) })
		require.NoError(t, m.Set(1, 1, time.Minute))
		for task := range timer.Tasks() {
			task.Run(nil)
		}
		value, ok := m.Get(1)
		require.True(t, ok)
		require.Equal(t, 1, value)
		time.Sleep(time.Minute + 2*tick)
		synctest.Wait()
		require.Len(t, calls, 1)
		require.GreaterOrEqual(t, calls[0], time.Minute)
	})
}

// The caller of Stop may run a task twice, also at the same time. The test runs on real time, because the tasks wait for a mutex.
func TestTwoRunsAfterStop(t *testing.T) {
	timer, err := hashedwheel.New()
	require.NoError(t, err)
	m := New[int, int](timer, nil)
	m.shards = m.shards[:1]
	for key := range 3 {
		require.NoError(t, m.Set(key, key, time.Hour))
	}
	left := timer.Stop()
	require.Len(t, left, 3)
	m.shards[0].mu.Lock()
	var runs sync.WaitGroup
	for _, i := range []int{0, 1, 2, 2} {
		runs.Go(func() { left[i].Task().Run(left[i]) })
		time.Sleep(5 * time.Millisecond) // so that it has begun
	}
	m.shards[0].mu.Unlock()
	runs.Wait()
	require.Zero(t, m.Len())
}

// The caller of Stop may run a task twice whose key waits for WithConcurrency, while the Map is closed.
func TestTwoRunsMeetClose(t *testing.T) {
	for range 100 {
		timer, err := hashedwheel.New()
		require.NoError(t, err)
		release := make(chan struct{})
		var calls atomic.Int64
		m := New(timer, func(int, int) { calls.Add(1); <-release }, WithConcurrency(1))
		require.NoError(t, m.Set(1, 1, time.Hour))
		require.NoError(t, m.Set(2, 2, time.Hour))
		left := timer.Stop()
		require.Len(t, left, 2)
		var runs sync.WaitGroup
		runs.Go(func() { left[0].Task().Run(left[0]) })
		for calls.Load() == 0 {
			runtime.Gosched()
		}
		left[1].Task().Run(left[1])
		runs.Go(func() { left[1].Task().Run(left[1]) })
		var entries []Entry[int, int]
		runs.Go(func() { entries = m.Close() })
		for keys, _, _ := m.limit.Waiting(); keys > 0; keys, _, _ = m.limit.Waiting() {
			runtime.Gosched()
		}
		close(release)
		runs.Wait()
		require.EqualValues(t, 2, int(calls.Load())+len(entries))
	}
}

// Keys expire, are set again, removed and cleared, all at the same time, in a Map without a function. None comes back, and
// none is left in the Map. The test runs on real time, because it tests a race.
func TestLeaveRace(t *testing.T) {
	for end := time.Now().Add(testkit.StressTime(t)); testkit.GoesOn(end, true); {
		timer, err := hashedwheel.New(hashedwheel.WithTick(20 * time.Microsecond))
		require.NoError(t, err)
		m := New[int, int](timer, nil)
		m.shards = m.shards[:1]
		var users sync.WaitGroup
		var stop atomic.Bool
		for range 4 {
			users.Go(func() {
				rnd := testkit.Rand(t)
				for !stop.Load() {
					key := rnd.IntN(200)
					_ = m.Set(key, key, time.Duration(rnd.IntN(200))*time.Microsecond)
					if value, ok := m.Get(key); ok && value != key {
						t.Errorf("key %d has the value %d", key, value)
					}
					switch rnd.IntN(200) {
					case 0:
						m.Clear()
					case 1:
						m.Remove(key)
					case 2:
						m.Update(key, func(value int) int { runtime.Gosched(); return value })
					}
				}
			})
		}
		time.Sleep(20 * time.Millisecond) // real time, because the race needs goroutines that run at the same time
		stop.Store(true)
		users.Wait()
		require.Eventually(t, func() bool { // Len does not count keys that are due and wait for the worker
			return m.Len() == 0 && timer.Stats().Pending == 0 && timer.Stats().Running == 0
		}, time.Minute, time.Millisecond)
		require.Empty(t, m.shards[0].items)
		require.Nil(t, m.shards[0].leaving.Load())
		require.Empty(t, timer.Stop())
	}
}

// A loop over Timer.Tasks may keep the tasks of keys. They end no value that was removed, cleared or replaced before Stop,
// and none that was left and then removed.
func TestRunOfWhatTasksHasYielded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t)
		var expired []int
		m := New(timer, func(_, value int) { expired = append(expired, value) })
		m.shards = m.shards[:1]
		for key := range 4 {
			require.NoError(t, m.Set(key, key, time.Minute))
		}
		var tasks []hashedwheel.Task
		for task := range timer.Tasks() {
			tasks = append(tasks, task)
		}
		require.Len(t, tasks, 4)
		run := func() {
			for _, task := range tasks {
				task.Run(nil)
			}
		}
		m.Remove(0)
		m.Remove(1)
		require.NoError(t, m.Set(1, 11, time.Minute)) // uses an item again
		run()
		require.NoError(t, m.Set(2, 12, time.Minute))
		require.Equal(t, map[int]int{1: 11, 2: 12, 3: 3}, maps.Collect(m.All()))
		m.Clear()
		require.NoError(t, m.Set(5, 5, time.Minute))
		require.NoError(t, m.Set(6, 6, time.Minute))
		left := timer.Stop()
		require.Len(t, left, 2)
		run()
		require.Empty(t, expired)
		m.Remove(5)
		for _, to := range left {
			require.True(t, to.Cancel())
			to.Task().Run(to)
		}
		require.Equal(t, []int{6}, expired)
		require.Zero(t, m.Len())
	})
}

// On the wrong side of a bubble, SetAt may panic when the timeout of a new key is armed already. Then no call of expired
// follows. The test runs on real time, because its timer is outside of the bubble.
func TestSetAtThatPanicsExpiresNothing(t *testing.T) {
	timer := newTimer(t)
	var calls atomic.Int64
	m := New(timer, func(int, int) { calls.Add(1) })
	to, err := timer.AfterFunc(10*time.Second, func() {})
	require.NoError(t, err)
	var armed bool
	for until := time.Now().Add(time.Minute); !armed && time.Now().Before(until); time.Sleep(tick) {
		accepted := timer.Stats().Accepted
		deadline := time.Now().Add(600 * time.Millisecond) // SetAt reads no clock before it arms
		panicked := true
		synctest.Test(t, func(t *testing.T) {
			defer func() { recover() }()
			m.SetAt(1, 1, deadline)
			panicked = false
		})
		if panicked {
			armed = timer.Stats().Accepted > accepted
		} else {
			m.Remove(1) // a round was in progress, so nothing had to be woken
		}
	}
	require.True(t, armed)
	to.Cancel() // wakes up the worker
	over := func() bool { return timer.Stats().Pending == 0 && timer.Stats().Running == 0 }
	require.Eventually(t, over, time.Minute, time.Millisecond)
	require.Zero(t, calls.Load())
	require.Zero(t, m.Len())
}

// A panic of Set on the wrong side of a bubble keeps no value: neither that of a new key nor that of one that was there.
func TestSetThatPanicsKeepsNothing(t *testing.T) {
	timer := newTimer(t)
	m := New[int, *[64]byte](timer, nil)
	m.shards = m.shards[:1]
	value := new([64]byte)
	held := weak.Make(value)
	require.NoError(t, m.Set(1, value, 200*time.Millisecond))
	value = nil
	synctest.Test(t, func(t *testing.T) {
		require.Panics(t, func() { m.Set(1, nil, time.Hour) })
	})
	require.Eventually(t, func() bool { runtime.GC(); return held.Value() == nil }, 10*time.Second, 10*time.Millisecond)
	runtime.KeepAlive(m)
}

// The panic handler may reset the timeout of a key whose call has panicked. This does not bring the key back, also if
// another task has yet to take it out. No method finds it, and none loses a value there.
func TestResetInPanicHandlerBringsNoKeyBack(t *testing.T) {
	for name, opt := range map[string]Option{"no limit": nil, "limit": WithConcurrency(1)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var m *Map[int, int]
				var expired []int
				handled := 0
				timer := newTimer(t, hashedwheel.WithPanicHandler(func(to *hashedwheel.Timeout, _ any, _ []byte) {
					handled++
					_, err := to.Reset(time.Minute)
					require.NoError(t, err)
					_, ok := m.Get(1)
					require.False(t, ok)
					_, ok = m.Touch(1, time.Hour)
					require.False(t, ok)
					_, ok = m.Remove(1)
					require.False(t, ok)
					require.NoError(t, m.Set(1, 2, time.Hour))
				}))
				m = New(timer, func(_, value int) {
					expired = append(expired, value)
					if value == 1 {
						panic("one")
					}
				}, opt)
				m.shards = m.shards[:1]
				m.shards[0].taking.Store(true) // as if another task took keys out
				require.NoError(t, m.Set(1, 1, tick))
				time.Sleep(3 * tick)
				synctest.Wait()
				require.Equal(t, 1, handled)
				m.shards[0].taking.Store(false)
				require.NoError(t, m.Set(3, 3, tick)) // takes out the other, too
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				require.Equal(t, []int{1, 3}, expired)
				value, ok := m.Get(1)
				require.True(t, ok)
				require.Equal(t, 2, value)
				require.Empty(t, m.shards[0].overdue)
				require.Equal(t, []Entry[int, int]{{1, 2}}, m.Close())
			})
		})
	}
}

// While Stop is at work, a loop over Timer.Tasks ends no key. Stop has yet to take the timeout, which is still pending.
func TestRunWhileStopIsAtWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t)
		calls := 0
		m := New(timer, func(int, int) { calls++ })
		require.NoError(t, m.Set(1, 1, time.Minute))
		shut := reflect.ValueOf(timer).Elem().FieldByName("queue").FieldByName("shut")
		gate := (*atomic.Bool)(shut.Addr().UnsafePointer())
		gate.Store(true)
		require.True(t, timer.IsStopped())
		for task := range timer.Tasks() {
			task.Run(nil)
		}
		require.Zero(t, calls)
		gate.Store(false)
		left := timer.Stop()
		require.Len(t, left, 1)
		left[0].Task().Run(left[0])
		require.Equal(t, 1, calls)
	})
}

// A call of expired that hangs keeps no other key and no other value, although nothing happens in the Map any more. The other
// calls return, panic or end their goroutines.
func TestCallThatHangsKeepsNoOther(t *testing.T) {
	for name, opt := range map[string]Option{"no limit": nil, "limit": WithConcurrency(4)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				type thing struct {
					n int
					_ [64]byte
				}
				timer := newTimer(t, hashedwheel.WithPanicHandler(func(*hashedwheel.Timeout, any, []byte) {}))
				release := make(chan struct{})
				m := New(timer, func(_, value *thing) {
					switch value.n {
					case 50:
						<-release
					case 51:
						panic("on purpose")
					case 52:
						runtime.Goexit()
					}
				}, opt)
				m.shards = m.shards[:1]
				var held []weak.Pointer[thing]
				for n := range 100 {
					key, value := &thing{n: n}, &thing{n: n}
					held = append(held, weak.Make(key), weak.Make(value))
					require.NoError(t, m.Set(key, value, tick))
				}
				time.Sleep(10 * time.Second) // more than the two after which the timer keeps nothing
				synctest.Wait()
				require.Equal(t, 1, timer.Stats().Running)
				runtime.GC()
				kept := 0
				for _, p := range held {
					if p.Value() != nil {
						kept++
					}
				}
				require.LessOrEqual(t, kept, 2)
				close(release)
				synctest.Wait()
				runtime.KeepAlive(m)
			})
		})
	}
}
