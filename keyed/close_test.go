package keyed

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
)

// texts returns entries as sorted texts.
func texts[K comparable, V any](entries []Entry[K, V]) (all []string) {
	for _, e := range entries {
		all = append(all, fmt.Sprint(e.Key, e.Value))
	}
	slices.Sort(all)
	return all
}

// requireClosed checks that no call changes a closed Map, or finds anything there, and that it holds nothing.
func requireClosed(t *testing.T, m *Map[string, int], key string) {
	t.Helper()
	require.ErrorIs(t, m.Set(key, 1, hour), ErrClosed)
	require.ErrorIs(t, m.SetAt(key, 1, time.Now().Add(hour)), ErrClosed)
	value, present, err := m.GetOrSet(key, 1, hour)
	require.ErrorIs(t, err, ErrClosed)
	require.False(t, present)
	require.Zero(t, value)
	for name, find := range map[string]func() (int, bool){
		"Get":      func() (int, bool) { return m.Get(key) },
		"Touch":    func() (int, bool) { return m.Touch(key, hour) },
		"TouchAt":  func() (int, bool) { return m.TouchAt(key, time.Now().Add(hour)) },
		"Remove":   func() (int, bool) { return m.Remove(key) },
		"Update":   func() (int, bool) { return m.Update(key, func(int) int { t.Error("Update"); return 0 }) },
		"RemoveIf": func() (int, bool) { return m.RemoveIf(key, func(int) bool { t.Error("RemoveIf"); return true }) },
		"TouchIf": func() (int, bool) {
			return m.TouchIf(key, hour, func(int, time.Time) bool { t.Error("TouchIf"); return true })
		},
	} {
		value, ok := find()
		require.False(t, ok, name)
		require.Zero(t, value, name)
	}
	_, ok := m.Deadline(key)
	require.False(t, ok)
	require.Zero(t, m.clear())
	require.Zero(t, m.Len())
	require.Empty(t, maps.Collect(m.All()))
	require.Nil(t, m.Close())
	for i := range m.shards {
		s := &m.shards[i]
		require.Nil(t, s.items)
		require.Nil(t, s.overdue)
		require.Nil(t, s.spare)
		require.Empty(t, s.updates)
	}
	if m.limit != nil {
		require.Nil(t, m.limit.waiting)
	}
}

// Close returns what is left, and nothing expires later. The timer has room again, and other Maps of it go on.
func TestMapClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, hashedwheel.WithMaxPending(4))
		var ends []string
		expired := func(key string, value int) { ends = append(ends, fmt.Sprint(key, value)) }
		m, other := New(timer, expired), New(timer, expired)
		require.NoError(t, m.Set("a", 1, 5*tick))
		require.NoError(t, m.Set("b", 2, 6*tick))
		require.NoError(t, m.Set("c", 3, hour))
		require.NoError(t, other.Set("d", 4, 7*tick))
		m.Remove("c") // leaves a spare item
		require.NoError(t, m.Set("c", 5, hour))
		pass(5 * tick)
		require.Equal(t, []string{"b2", "c5"}, texts(m.Close()))
		require.Equal(t, 1, timer.Pending())
		for _, key := range []string{"a", "b", "c", "d"} {
			requireClosed(t, m, key)
		}
		pass(2 * hour)
		require.Equal(t, []string{"a1", "d4"}, ends)
		require.Equal(t, hashedwheel.Stats{Accepted: 5, Expired: 2, Canceled: 3}, outcomes(timer))

		empty := New(timer, expired)
		require.Nil(t, empty.Close())
		requireClosed(t, empty, "a")
	})
}

// Close returns values that are due and wait, also those of keys that were set again. Without expired, it returns none past its
// deadline.
func TestMapCloseWhileTasksWait(t *testing.T) {
	hanging(t, func(t *testing.T, timer *hashedwheel.Timer, release func()) {
		var ends []string
		m := New(timer, func(key string, value int) { ends = append(ends, fmt.Sprint(key, value)) })
		silent := New[string, int](timer, nil)
		for _, m := range []*Map[string, int]{m, silent} {
			require.NoError(t, m.Set("a", 1, tick))
			require.NoError(t, m.Set("b", 2, tick))
			require.NoError(t, m.Set("c", 3, 2*hour))
			pass(tick)
			require.NoError(t, m.Set("b", 4, tick))
			pass(tick)
			require.NoError(t, m.Set("b", 5, 2*hour))
		}
		require.Equal(t, []string{"a1", "b2", "b4", "b5", "c3"}, texts(m.Close()))
		require.Equal(t, []string{"b5", "c3"}, texts(silent.Close()))
		requireClosed(t, m, "b")
		requireClosed(t, silent, "b")
		require.Equal(t, 2, timer.Pending(), "values that have been replaced when they were due, and expire into nothing")
		release()
		require.Empty(t, ends)
	})
}

// The task of a key has been started, and waits for the lock. Then Close has the value, and the task does nothing.
func TestMapCloseMeetsExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := func(key string, value int) { t.Error(key, value, "has expired") }
		m := New(newTimer(t), never)
		runs := []func(){setExpired(t, m, "a", 1), setExpired(t, m, "b", 2)}
		require.NoError(t, m.Set("a", 3, hour))
		require.NoError(t, m.Set("c", 4, hour))
		m.Clear() // drops a3, c4 and b2, whose task is to come
		runs = append(runs, setExpired(t, m, "c", 5))
		require.Equal(t, []string{"a1", "b2", "c5"}, texts(m.Close()))
		for _, run := range runs {
			run()
		}
		requireClosed(t, m, "a")

		m = New[string, int](newTimer(t), nil)
		run := setExpired(t, m, "a", 1)
		require.Nil(t, m.Close())
		run()
	})
}

// Close returns the values that WithConcurrency holds back. The calls in progress go on, and WaitRunning waits for these.
func TestMapCloseWhileCallsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t)
		var ends, begun atomic.Int32 // sums of values
		m := New(timer, func(_ string, value int) {
			begun.Add(int32(value))
			time.Sleep(10 * tick)
			ends.Add(int32(value))
			if value == 2 {
				runtime.Goexit() // another goroutine goes on, and finds nothing to do
			}
		}, WithConcurrency(1))
		for value, key := range []string{"a", "b", "c", "d"} {
			require.NoError(t, m.Set(key, value+1, time.Duration(value+1)*tick))
		}
		require.NoError(t, m.Set("e", 5, hour))
		pass(13 * tick) // a1 is over, and b2 has begun
		require.EqualValues(t, 1, ends.Load())
		require.EqualValues(t, 1+2, begun.Load())
		start := time.Now()
		require.Equal(t, []string{"c3", "d4", "e5"}, texts(m.Close()))
		requireClosed(t, m, "c")
		require.NoError(t, m.WaitRunning(t.Context()))
		require.Equal(t, 8*tick, time.Since(start))
		require.EqualValues(t, 1+2, ends.Load())
		pass(2 * hour)
		require.EqualValues(t, 1+2, begun.Load())
		require.Zero(t, timer.Stats().Running)
		require.Empty(t, m.limit.calling)
	})
}

// WaitRunning waits for the calls in progress, not for those that begin later, nor for other Maps. Inside expired it waits for
// the context.
func TestMapWaitRunning(t *testing.T) {
	for name, opt := range map[string]Option{"no limit": nil, "limit": WithConcurrency(2)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				timer := newTimer(t)
				var m *Map[int, int]
				var over atomic.Int32
				m = New(timer, func(key, _ int) {
					time.Sleep(time.Duration(key) * tick)
					if key == 7 {
						ctx, cancel := context.WithTimeout(context.Background(), hour)
						defer cancel()
						assert.Equal(t, context.DeadlineExceeded, m.WaitRunning(ctx), "inside expired")
					}
					over.Add(1)
				}, opt)
				other := New(timer, func(int, int) { time.Sleep(hour) }, opt)
				require.NoError(t, m.WaitRunning(t.Context()))
				require.NoError(t, m.Set(10, 0, tick))
				require.NoError(t, m.Set(20, 0, tick))
				require.NoError(t, m.Set(100, 0, 3*tick)) // with a limit it waits, and begins when the first is over
				require.NoError(t, other.Set(1, 0, tick))
				done, cancel := context.WithCancel(t.Context())
				cancel()
				require.NoError(t, m.WaitRunning(done), "pending")
				start := time.Now()
				pass(2 * tick)
				require.Equal(t, context.Canceled, m.WaitRunning(done))
				var all sync.WaitGroup
				for range 3 {
					all.Go(func() { assert.NoError(t, m.WaitRunning(t.Context())) })
				}
				all.Wait()
				require.Equal(t, 21, int(time.Since(start)/tick)) // the first call may hold up the second for a moment
				require.EqualValues(t, 2, over.Load())
				soon, cancel := context.WithTimeout(t.Context(), 5*tick)
				defer cancel()
				require.Equal(t, context.DeadlineExceeded, m.WaitRunning(soon))
				require.NoError(t, m.WaitRunning(t.Context()))
				require.EqualValues(t, 3, over.Load())
				require.NoError(t, m.WaitRunning(done))

				require.NoError(t, m.Set(7, 0, tick))
				pass(2 * hour)
				require.EqualValues(t, 4, over.Load())

				silent := New[int, int](timer, nil)
				require.NoError(t, silent.Set(1, 1, tick))
				pass(tick)
				require.NoError(t, silent.WaitRunning(done))
			})
		})
	}
}

// Expired closes its own Map, and one call after it.
func TestMapCloseFromInside(t *testing.T) {
	for name, opt := range map[string]Option{"no limit": nil, "limit": WithConcurrency(1)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var m *Map[string, int]
				var left []string
				calls := 0
				m = New(newTimer(t), func(string, int) {
					calls++
					time.Sleep(tick)
					left = append(left, texts(m.Close())...)
				}, opt)
				for value, key := range []string{"a", "b", "c"} {
					require.NoError(t, m.Set(key, value, time.Duration(value+1)*5*tick))
				}
				pass(hour)
				require.Equal(t, 1, calls)
				require.Equal(t, []string{"b1", "c2"}, left)
			})
		})
	}
}

// After Stop, Close returns what was left. The caller of Stop has the same values by their timeouts. A value whose task it has run
// has expired, and one that Close has returned does not expire.
func TestMapCloseAfterStop(t *testing.T) {
	hanging(t, func(t *testing.T, timer *hashedwheel.Timer, release func()) {
		var ends []string
		m := New(timer, func(key string, value int) { ends = append(ends, fmt.Sprint(key, value)) })
		require.NoError(t, m.Set("a", 1, tick))
		require.NoError(t, m.Set("b", 2, tick))
		require.NoError(t, m.Set("c", 3, hour))
		require.NoError(t, m.Set("d", 4, hour))
		require.NoError(t, m.Set("e", 5, hour))
		pass(tick)
		require.NoError(t, m.Set("b", 6, hour)) // b2 is due, and waits
		left := timer.Stop()
		release()
		require.Len(t, left, 6)
		run := func(which func(value int) bool) {
			for _, to := range left {
				if it := to.Task().(*item[string, int]); which(it.value) {
					to.Cancel()
					it.Run(to)
				}
			}
		}
		run(func(value int) bool { return value == 3 })
		_, ok := m.Remove("d")
		require.True(t, ok)
		require.Equal(t, []string{"a1", "b2", "b6", "e5"}, texts(m.Close()))
		requireClosed(t, m, "a")
		run(func(int) bool { return true })
		require.Equal(t, []string{"c3"}, ends)
	})
	synctest.Test(t, func(t *testing.T) { // a value that was due when its key was set again, and that the caller of Stop expires
		timer := newTimer(t)
		var ends []int
		m := New(timer, func(_ string, value int) { ends = append(ends, value) })
		release := holdUp(t, timer)
		require.NoError(t, m.Set("a", 1, tick))
		pass(tick)
		require.NoError(t, m.Set("a", 2, hour))
		s := m.shard("a")
		require.Len(t, s.overdue, 1)
		release()
		timer.Stop()
		for it := range s.overdue {
			it.Run(&it.timeout)
		}
		require.Equal(t, []int{1}, ends)
		require.Empty(t, s.overdue)
		require.Equal(t, []string{"a2"}, texts(m.Close()))
	})
}

// Close comes while f runs. The result is dropped, Close has the value that was there, and a call that waits for its turn finds
// nothing.
func TestMapCloseMeetsUpdates(t *testing.T) {
	for name, call := range map[string]func(m *Map[string, int], during func()) (int, bool){
		"Update": func(m *Map[string, int], during func()) (int, bool) {
			return m.Update("a", func(int) int { during(); return 10 })
		},
		"RemoveIf": func(m *Map[string, int], during func()) (int, bool) {
			return m.RemoveIf("a", func(int) bool { during(); return true })
		},
		"TouchIf": func(m *Map[string, int], during func()) (int, bool) {
			return m.TouchIf("a", hour, func(int, time.Time) bool { during(); return true })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := New(newTimer(t), func(string, int) { t.Error("a key has expired") })
				require.NoError(t, m.Set("a", 1, tick))
				var left []Entry[string, int]
				var all sync.WaitGroup
				value, ok := call(m, func() {
					all.Go(func() {
						_, ok := m.Update("a", add1)
						assert.False(t, ok)
					})
					synctest.Wait()
					left = m.Close()
				})
				require.False(t, ok)
				require.Zero(t, value)
				require.Equal(t, []Entry[string, int]{{"a", 1}}, left)
				all.Wait()
				requireClosed(t, m, "a")
				pass(hour)
			})
		})
	}
}

// A closed Map, its timer and the caller of Stop hold no keys and values.
func TestMapCloseKeepsNothing(t *testing.T) {
	type big [64]byte
	for _, stopped := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			timer := newTimer(t)
			var held []weak.Pointer[big]
			value := func() *big {
				value := new(big)
				held = append(held, weak.Make(value))
				return value
			}
			released := make(chan struct{})
			m := New(timer, func(_, _ *big) { <-released }, WithConcurrency(1))
			for range 3 {
				require.NoError(t, m.Set(value(), value(), tick)) // of which two wait
			}
			for range 10 {
				require.NoError(t, m.Set(value(), value(), hour))
			}
			pass(tick)
			var left []*hashedwheel.Timeout
			if stopped {
				left = timer.Stop()
			}
			require.Len(t, m.Close(), 12)
			close(released)
			require.NoError(t, m.WaitRunning(t.Context()))
			runtime.GC()
			n := 0
			for _, p := range held {
				if p.Value() != nil {
					n++
				}
			}
			require.LessOrEqual(t, n, 2, "the key and the value for which expired was called")
			runtime.KeepAlive(m)
			runtime.KeepAlive(left)
		})
	}
}

// The end of a channel of nsqd: its messages in flight come back when their time is over, and are written to disk when the channel
// ends. Closes meet expiry, on real time. Each message is in one place, and no call begins after Close and WaitRunning.
func TestMapCloseRace(t *testing.T) {
	for name, limit := range map[string]int{"no limit": 0, "limit": 1} {
		t.Run(name, func(t *testing.T) {
			rnd := newRand(t)
			timer := newTimer(t, hashedwheel.WithTick(20*time.Microsecond))
			var expired, left, again, refused int
			for range sized(2_000, 10_000, 50_000) {
				const messages, spare = 4, 4
				var ends [messages + spare]atomic.Int32
				var over atomic.Bool
				m := New(timer, func(_, message int) {
					if over.Load() {
						t.Error("a call has begun after Close and WaitRunning")
					}
					ends[message].Add(1)
					if message%2 == 0 {
						runtime.Gosched()
					}
				}, WithConcurrency(limit))
				for message := range messages {
					require.NoError(t, m.Set(message, message, time.Duration(rnd.IntN(60))*time.Microsecond))
				}
				var stored [spare]bool
				start := time.Now()
				until := func(µs int) {
					for time.Since(start) < time.Duration(µs)*time.Microsecond {
						yield(1)
					}
				}
				wait, pause := rnd.IntN(120), rnd.IntN(100)
				var sender sync.WaitGroup
				sender.Go(func() { // sends messages again, under the same keys, when they are due
					until(pause)
					for i := range spare {
						_, present, err := m.GetOrSet(i, messages+i, 10*time.Microsecond)
						stored[i] = err == nil && !present
						if err != nil {
							assert.ErrorIs(t, err, ErrClosed)
						}
					}
				})
				until(wait)
				var closed [2][]Entry[int, int]
				if wait%8 == 0 {
					sender.Go(func() { closed[1] = m.Close() })
				}
				closed[0] = m.Close()
				require.NoError(t, m.WaitRunning(context.Background()))
				over.Store(true)
				sender.Wait()
				require.True(t, len(closed[0]) == 0 || len(closed[1]) == 0, "one Close has all entries")
				for message := range ends {
					if ends[message].Load() > 0 {
						expired++
					}
				}
				for _, e := range slices.Concat(closed[:]...) {
					ends[e.Value].Add(1)
					left++
				}
				for message := range ends {
					want := int32(1)
					if message >= messages && !stored[message-messages] {
						want = 0
						refused++
					} else if message >= messages {
						again++
					}
					require.Equal(t, want, ends[message].Load(), "message %d", message)
				}
			}
			t.Logf("%d expired, %d left, %d sent again, %d not", expired, left, again, refused)
			require.Positive(t, expired)
			require.Positive(t, left)
			require.Positive(t, again)
			require.Positive(t, refused)
			require.Zero(t, timer.Pending())
		})
	}
}
