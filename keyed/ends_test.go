package keyed

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// Calls of expired panic, end their goroutines and set their keys again, while goroutines use the Map, run the tasks that
// Timer.Tasks yields, and end the Map by Close or by Stop, after which two goroutines run each task. Each value has one end,
// with what the last Update has made of it. The test runs on real time, because it tests a race.
func TestEndsRace(t *testing.T) {
	for end := time.Now().Add(testkit.StressTime(t)); testkit.GoesOn(end, true); {
		endsRace(t)
	}
}

func endsRace(t *testing.T) {
	const most, keys = 4_000, 20
	type value struct{ id, version int64 } // version counts the Updates of the value
	rnd := testkit.Rand(t)
	timer, err := hashedwheel.New(hashedwheel.WithTick(20*time.Microsecond),
		hashedwheel.WithPanicHandler(func(to *hashedwheel.Timeout, _ any, _ []byte) { _, _ = to.Reset(time.Microsecond) }))
	require.NoError(t, err)
	var ids atomic.Int64
	var ends, versions [most]atomic.Int64
	stored := make([]atomic.Bool, most)
	ended := func(v value) {
		ends[v.id].Add(1)
		versions[v.id].Store(v.version)
	}
	var updates [most]atomic.Int64
	var m *Map[int, value]
	add := func(key int, delay time.Duration) {
		id := ids.Add(1)
		if id >= most {
			return
		}
		if _, present, err := m.GetOrSet(key, value{id: id}, delay); err == nil && !present {
			stored[id].Store(true)
		}
	}
	opts := []Option{nil, WithConcurrency(1), WithConcurrency(3)}
	m = New(timer, func(key int, v value) {
		ended(v)
		switch v.id % 16 {
		case 0:
			panic("on purpose")
		case 1:
			runtime.Goexit()
		case 2:
			add(key, 0)
		}
	}, opts[rnd.IntN(len(opts))])
	m.shards = m.shards[:2]
	var stop atomic.Bool
	var users sync.WaitGroup
	for range 3 {
		users.Go(func() {
			rnd := testkit.Rand(t)
			for !stop.Load() {
				testkit.Spin()
				key := rnd.IntN(keys)
				switch rnd.IntN(8) {
				case 0:
					if v, ok := m.Remove(key); ok {
						ended(v)
					}
				case 1:
					if v, ok := m.RemoveIf(key, func(v value) bool { return v.id%2 == 0 }); ok {
						ended(v)
					}
				case 2, 3:
					if v, ok := m.Update(key, func(v value) value { v.version++; return v }); ok {
						updates[v.id].Add(1)
					}
				case 4:
					m.TouchIf(key, 50*time.Microsecond, func(value, time.Time) bool { return true })
				case 5:
					m.Len()
					for range m.All() {
					}
				default:
					add(key, time.Duration(rnd.IntN(100))*time.Microsecond)
				}
			}
		})
	}
	users.Go(func() {
		var kept []hashedwheel.Task
		for !stop.Load() {
			for task := range timer.Tasks() {
				kept = append(kept, task)
			}
			if len(kept) > 100 {
				kept = kept[50:]
			}
			for _, task := range kept {
				var run sync.WaitGroup
				run.Go(func() { // the call may end its goroutine
					defer func() { _ = recover() }()
					task.Run(nil)
				})
				run.Wait()
			}
			runtime.Gosched()
		}
	})
	time.Sleep(time.Duration(rnd.IntN(5)) * time.Millisecond)
	var left []*hashedwheel.Timeout
	if rnd.IntN(2) == 0 {
		left = timer.Stop()
	}
	if rnd.IntN(2) == 0 {
		for range 2 {
			for _, to := range left {
				users.Go(func() {
					defer func() { _ = recover() }()
					to.Task().Run(to)
				})
			}
		}
	}
	if rnd.IntN(2) == 0 {
		time.Sleep(time.Millisecond)
	}
	for _, entry := range m.Close() {
		ended(entry.Value)
	}
	stop.Store(true)
	users.Wait()
	require.NoError(t, m.WaitRunning(t.Context()))
	_, err = timer.Shutdown(t.Context())
	require.NoError(t, err)
	for id := range min(ids.Load()+1, most) {
		want := int64(0)
		if stored[id].Load() {
			want = 1
		}
		require.Equal(t, want, ends[id].Load(), "ends of value %d", id)
		require.Equal(t, updates[id].Load(), versions[id].Load(), "Updates of value %d", id)
	}
	for i := range m.shards {
		require.Nil(t, m.shards[i].leaving.Load())
		require.Empty(t, m.shards[i].updates)
	}
}
