package keyed

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// While the locks of all shards are held, at most one task of each waits. The others leave their keys to it. The test runs on real
// time, because the tasks wait for a mutex.
func TestTasksDoNotWaitForTheLock(t *testing.T) {
	timer, err := hashedwheel.New(hashedwheel.WithTick(time.Millisecond))
	require.NoError(t, err)
	defer timer.Stop()
	m := New[int, int](timer, nil)
	m.shards = m.shards[:1] // so that to take them out needs several locks
	const n = 10_000
	for key := range n {
		require.NoError(t, m.Set(key, key, time.Second))
	}
	require.NoError(t, m.Set(n, n, time.Hour))
	for i := range m.shards {
		m.shards[i].mu.Lock()
	}
	require.Eventually(t, func() bool { return timer.Stats().Expired == n }, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool { return timer.Stats().Running <= len(m.shards) }, 10*time.Second, time.Millisecond)
	var lens sync.WaitGroup
	for range 4 {
		lens.Go(func() { assert.Equal(t, 1, m.Len(), "Len does not count what has yet to be taken out") })
	}
	time.Sleep(10 * time.Millisecond) // so that they wait
	for i := range m.shards {
		m.shards[i].mu.Unlock()
	}
	lens.Wait()
	require.Eventually(t, func() bool { return timer.Stats().Running == 0 }, time.Minute, time.Millisecond)
	for i := range m.shards {
		s := &m.shards[i]
		require.Nil(t, s.leaving.Load())
		require.LessOrEqual(t, len(s.items), 1)
	}
	value, ok := m.Remove(n)
	require.True(t, ok)
	require.Equal(t, n, value)
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

// Keys expire, are set again, removed and cleared, all at the same time, in a Map without a function. None comes back, and none is
// left in the Map. The test runs on real time, because it tests a race.
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
