package keyed

import (
	"maps"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/internal/explore"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// Each scenario searches the orders of the steps of a few goroutines that use a Map, while its timer does its part. TestExplore
// runs them, in a copy of the package that has no other tests.

const (
	tick = time.Millisecond
	hour = time.Hour
)

var scenarios = make(explore.Scenarios)

var (
	plain = explore.Size{}          // all steps at one instant
	timed = explore.Size{Passes: 1} // with a boundary between any two steps
)

// A scene is one execution of a scenario. All values are of one key, and each has one end. The fields need no lock,
// because one goroutine runs at a time.
type scene struct {
	*explore.Run
	timer *hashedwheel.Timer
	m     *Map[int, int]

	stored  []int // the values that were stored
	expired []int // for which expired was called
	removed []int // that Remove has returned
	cleared int   // how many Clear has removed
	foreign bool  // expired was called for another key
	others  int   // how many other timeouts were armed, and canceled before the race
	late    []int // values that must not expire
	left    []*hashedwheel.Timeout
}

const key = 7

// search returns a scenario, which searches the orders of a scene. At the end of each, each value has ended once, or is still there.
func search(daily, fully explore.Size, play func(s *scene)) func(t *testing.T) {
	return func(t *testing.T) {
		t.Helper()
		explore.Scenario(t, tick, daily, fully, func(r *explore.Run) {
			timer, err := hashedwheel.New(hashedwheel.WithTick(tick), hashedwheel.WithWheelSize(4))
			require.NoError(r, err)
			defer timer.Stop()
			oneStripe(timer)
			s := &scene{Run: r, timer: timer}
			s.m = New(timer, func(k, value int) {
				s.foreign = s.foreign || k != key
				s.expired = append(s.expired, value)
			})
			s.m.shards = s.m.shards[:1]
			play(s)
		})
	}
}

// oneStripe leaves the queue of a timer only one stripe. Otherwise the address of its stack decides which stripe a
// goroutine uses, and differs between executions.
func oneStripe(timer *hashedwheel.Timer) {
	queue := reflect.ValueOf(timer).Elem().FieldByName("queue")
	for name, n := range map[string]int{"stripes": 1, "seats": 0} {
		f := queue.FieldByName(name)
		f = reflect.NewAt(f.Type(), f.Addr().UnsafePointer()).Elem()
		if n == 0 {
			f.SetZero()
		} else {
			f.Set(f.Slice(0, n))
		}
	}
}

// set stores a value. A value that expires later than the scenario takes must not expire.
func (s *scene) set(value int, delay time.Duration) {
	if s.m.Set(key, value, delay) == nil {
		s.store(value, delay)
	}
}

func (s *scene) store(value int, delay time.Duration) {
	s.stored = append(s.stored, value)
	if delay == hour {
		s.late = append(s.late, value)
	}
}

func (s *scene) touch() (value int) {
	value, ok := s.m.Touch(key, hour)
	if ok {
		s.late = append(s.late, value)
	}
	return value
}

func (s *scene) remove() {
	if value, ok := s.m.Remove(key); ok {
		s.removed = append(s.removed, value)
	}
}

// getOrSet returns the value that GetOrSet returns, and whether the given one was stored.
func (s *scene) getOrSet(value int, delay time.Duration) (got int, stored bool) {
	got, present, err := s.m.GetOrSet(key, value, delay)
	stored = err == nil && !present
	if stored {
		s.store(value, delay)
	}
	return got, stored
}

// stop stops the timer, and runs the tasks of the timeouts that are left if run is true.
func (s *scene) stop(run bool) {
	s.left = s.timer.Stop()
	if run {
		for _, to := range s.left {
			to.Task().Run(to)
		}
	}
}

// awaken starts the worker. It stays awake until the next boundary, and only then takes what is on the queue.
func (s *scene) awaken() {
	s.others++
	to, err := s.timer.AfterFunc(hour, func() {})
	require.NoError(s, err)
	synctest.Wait()
	to.Cancel()
}

// tickAway lets time pass until half a tick after the n'th boundary.
func tickAway(n int) {
	testkit.Pass(time.Duration(n)*tick + tick/2)
}

// race runs the racers, lets time pass, and checks the ends of the values.
func (s *scene) race(lead time.Duration) {
	s.Race(lead)
	testkit.Pass(10 * tick)
	require.False(s, s.foreign)
	ends := make(map[int]int)
	for _, values := range [][]int{s.expired, s.removed} {
		for _, value := range values {
			ends[value]++
		}
	}
	behind := maps.Collect(s.m.All())
	require.Equal(s, len(behind), s.m.Len())
	for k, value := range behind {
		require.Equal(s, key, k)
		ends[value]++
	}
	for value, n := range ends {
		require.Contains(s, s.stored, value)
		require.Equal(s, 1, n, "value %d", value)
	}
	for _, value := range s.late {
		if s.left == nil {
			require.NotContains(s, s.expired, value, "not due for an hour")
		}
	}
	// Each Set that has armed no timeout has replaced a value.
	st := s.timer.Stats()
	replaced := len(s.stored) + s.others - int(st.Accepted)
	require.Equal(s, len(s.stored), len(ends)+replaced+s.cleared,
		"%v expired, %v removed, %d cleared, %v still there, %d replaced",
		s.expired, s.removed, s.cleared, behind, replaced)
	if !s.timer.IsStopped() {
		require.Equal(s, len(behind), st.Pending)
		value, ok := s.m.Get(key)
		require.Equal(s, len(behind) == 1, ok)
		require.Equal(s, behind[key], value)
	}
}

var _ = scenarios.Add(explore.Scenarios{
	// A key is touched while it expires and is set again. A value that Touch returns does not expire.
	"Touch": search(plain, timed, func(s *scene) {
		s.set(1, 0)
		tickAway(0)
		s.Go(func() { s.touch() })
		s.Go(func() { s.set(2, hour) })
		s.race(tick)
		require.Equal(s, map[int]int{key: 2}, maps.Collect(s.m.All()))
	}),
	// A key is touched when its task is about to start.
	"TouchExpiry": search(timed.Quickly(2), timed, func(s *scene) {
		s.set(1, 0)
		tickAway(0)
		touched := 0
		s.Go(func() { touched = s.touch() })
		s.race(tick)
		require.Equal(s, touched == 0, len(s.expired) == 1)
	}),
	// A key is touched while it is set again. Touch has moved the deadline of the value that it returns.
	"TouchSet": search(plain, timed, func(s *scene) {
		s.set(1, hour/2)
		tickAway(0)
		touched := 0
		s.Go(func() { touched, _ = s.m.Touch(key, 3*hour) })
		s.Go(func() { s.set(2, hour) })
		s.race(0)
		deadline, _ := s.m.Deadline(key)
		require.Equal(s, touched == 2, time.Until(deadline) > 2*hour, "Touch has returned %d", touched)
	}),
	// The keys are cleared while a key expires and is set again.
	"Clear": search(plain, timed, func(s *scene) {
		s.set(1, 0)
		tickAway(0)
		s.Go(func() { s.cleared = s.m.clear() })
		s.Go(func() { s.set(2, hour) })
		s.race(tick)
	}),
	// Two goroutines call GetOrSet for a new key. Both get the value of the one that has stored its own.
	"GetOrSet": search(timed, timed, func(s *scene) {
		var got [2]int
		var stored [2]bool
		for i := range 2 {
			s.Go(func() { got[i], stored[i] = s.getOrSet(1+i, hour) })
		}
		s.race(0)
		require.NotEqual(s, stored[0], stored[1])
		require.Equal(s, got[0], got[1])
	}),
	// Two goroutines call GetOrSet while the key expires.
	"GetOrSetExpiry": search(timed.Quickly(2), timed, func(s *scene) {
		s.set(1, 0)
		tickAway(0)
		var got [2]int
		var stored [2]bool
		for i := range 2 {
			s.Go(func() { got[i], stored[i] = s.getOrSet(2+i, hour) })
		}
		s.race(tick)
		require.False(s, stored[0] && stored[1])
		for i := range 2 {
			require.True(s, stored[i] || got[i] == 1 || got[i] == 3-i, "%v", got)
		}
		require.Equal(s, []int{1}, s.expired)
	}),
	// Two goroutines update a key while it expires. No update is lost, and expired gets the last value.
	"Update": search(plain, timed, func(s *scene) {
		s.set(1, 0)
		tickAway(0)
		updated := 0
		for range 2 {
			s.Go(func() {
				if _, ok := s.m.Update(key, func(value int) int { return value + 1 }); ok {
					updated++
				}
			})
		}
		s.Race(tick)
		testkit.Pass(10 * tick)
		require.Equal(s, []int{1 + updated}, s.expired)
		require.Empty(s, s.m.shards[0].updates)
	}),
	// A key is updated while it is removed and set again, which uses the item again. The update does not change the new value.
	"UpdateAndSet": search(timed, timed, func(s *scene) {
		s.set(1, hour)
		tickAway(0) // so that the round that the push has started is over
		ok := false
		s.Go(func() { _, ok = s.m.Update(key, func(value int) int { return value + 10 }) })
		s.Go(func() {
			s.remove()
			s.set(2, hour)
		})
		updated := 0
		s.Race(0)
		value, found := s.m.Get(key)
		require.True(s, found)
		switch {
		case value == 12:
			updated = 12
		case len(s.removed) == 1 && s.removed[0] == 11:
			updated = 11
		}
		require.Equal(s, ok, updated != 0, "%d, %v", value, s.removed)
	}),
	// A key is removed and set again while it expires. The new value uses the spare item, whose old entry may still be on
	// the queue or in a bucket.
	"SpareExpiry": func(t *testing.T) {
		for _, delay := range []time.Duration{0, hour} {
			search(plain, timed, func(s *scene) {
				s.set(1, 0)
				tickAway(0)
				s.Go(func() {
					s.remove()
					s.set(2, delay)
				})
				s.race(tick)
			})(t)
		}
	},
	// The spare item is armed while its old entry is still on the queue. Stop comes meanwhile. Then the caller of Stop
	// runs what is left, or not.
	"SpareStop": func(t *testing.T) {
		for _, run := range []bool{false, true} {
			search(timed.Quickly(2), timed, func(s *scene) {
				s.awaken()
				s.set(1, hour)
				s.Go(func() {
					s.remove()
					s.set(2, hour)
				})
				s.Go(func() { s.stop(run) })
				s.race(0)
			})(t)
		}
	},
	// Keys are removed while Stop ends them, and its caller runs their tasks.
	"Stop": func(t *testing.T) {
		for _, clear := range []bool{false, true} {
			search(plain, timed, func(s *scene) {
				s.set(1, hour)
				tickAway(1)
				s.Go(func() {
					if clear {
						s.cleared = s.m.clear()
					} else {
						s.remove()
					}
					s.set(2, hour)
				})
				s.Go(func() { s.stop(true) })
				s.race(0)
			})(t)
		}
	},
	// A loop over Timer.Tasks runs the task of a key, while Stop ends it. The caller of Stop runs the task, too. Meanwhile the
	// value is updated and set, or removed and set. Each value has one end, and expired gets the last one.
	"Tasks": func(t *testing.T) {
		search(plain.Bounded(3), plain, func(s *scene) {
			s.set(1, hour)
			tickAway(1)
			task := s.m.shards[0].items[key]
			value := 1
			s.Go(func() { task.Run(nil) })
			s.Go(func() {
				if _, ok := s.m.Update(key, func(value int) int { return value + 1 }); ok {
					value++
				}
				if s.m.Set(key, value+2, hour) == nil {
					value += 2
				}
			})
			s.Go(func() { s.stop(true) })
			s.Race(0)
			require.Equal(s, []int{value}, s.expired)
			require.Zero(s, s.m.Len())
		})(t)
		search(plain.Bounded(3), plain, func(s *scene) {
			s.set(1, hour)
			tickAway(1)
			task := s.m.shards[0].items[key]
			s.Go(func() { task.Run(nil) })
			s.Go(func() {
				s.remove()
				s.set(2, hour) // uses the item again
			})
			s.Go(func() { s.stop(true) })
			s.race(0)
		})(t)
	},
	// A key is set while Stop ends it. Another key has left a spare item, which Stop has not taken off the queue yet. A
	// value that Stop has ended stays, and is not replaced.
	"StopAndSpare": func(t *testing.T) {
		for _, getOrSet := range []bool{false, true} {
			search(plain, timed, func(s *scene) {
				s.awaken()
				s.set(1, hour) // in a slot before that of the spare item, so Stop comes to it first
				s.others++
				require.NoError(s, s.m.Set(-1, 0, hour))
				s.m.Remove(-1)
				s.Go(func() {
					if getOrSet {
						s.getOrSet(2, hour)
					} else {
						s.set(2, hour)
					}
				})
				s.Go(func() { s.stop(false) })
				s.race(0)
			})(t)
		}
	},
	// As StopAndSpare, but the timeout of the key is in a bucket, and is to be moved to an earlier tick. So Set
	// finds the gate of Stop shut while the timeout is still pending.
	"StopAndSpareEarlier": search(plain, plain, func(s *scene) {
		s.set(1, hour)
		testkit.Pass(2 * time.Second) // a sweep places the timeout
		s.others++
		require.NoError(s, s.m.Set(-1, 0, hour/4))
		s.m.Remove(-1) // the spare item is in the nursery, and may stay there when it is armed for a later tick
		s.Go(func() { s.set(2, hour/2) })
		s.Go(func() { s.stop(false) })
		s.race(0)
	}),
	// RemoveIf meets an expiry, and a Set that uses the item again or a new one.
	"RemoveIf": search(plain, timed, func(s *scene) {
		s.set(1, 0)
		tickAway(0)
		s.Go(func() {
			if value, ok := s.m.RemoveIf(key, func(value int) bool { return value == 1 }); ok {
				s.removed = append(s.removed, value)
			}
		})
		s.Go(func() { s.set(2, hour) })
		s.Race(tick)
		testkit.Pass(10 * tick)
		require.LessOrEqual(s, len(s.removed)+len(s.expired), 1, "%v removed, %v expired", s.removed, s.expired)
		for _, value := range append(s.removed, s.expired...) {
			require.Equal(s, 1, value)
		}
		require.Equal(s, map[int]int{key: 2}, maps.Collect(s.m.All()))
		if len(s.removed)+len(s.expired) == 0 { // it was replaced
			require.EqualValues(s, 1, s.timer.Stats().Accepted)
		}
		require.Empty(s, s.m.shards[0].updates)
	}),
	// Close meets an expiry, and a GetOrSet that stores a new value when the old one is due. Each value is passed to expired or returned
	// by Close, with a limit and without.
	"Close": func(t *testing.T) {
		for _, limited := range []bool{false, true} {
			search(plain, timed, func(s *scene) {
				if limited {
					s.m.limit = newLimit[int, int](s.timer, 1)
				}
				s.set(1, 0)
				tickAway(0)
				var left []Entry[int, int]
				s.Go(func() { left = s.m.Close() })
				s.Go(func() { s.getOrSet(2, hour) })
				s.Race(tick)
				testkit.Pass(10 * tick)
				ends := s.expired
				for _, e := range left {
					require.Equal(s, key, e.Key)
					ends = append(ends, e.Value)
				}
				require.ElementsMatch(s, s.stored, ends, "%v expired, %v left", s.expired, left)
				require.Zero(s, s.m.Len())
				require.Zero(s, s.timer.Pending())
				require.Empty(s, s.m.shards[0].overdue)
			})(t)
		}
	},
	// Two Closes meet, with a value in each of two shards. One of them returns both values, and the other none.
	"Closes": search(plain, plain, func(s *scene) {
		shards := s.m.shards[:2]
		for i := range shards {
			s.m.shards = shards[i : i+1]
			s.set(i+1, hour)
		}
		s.m.shards = shards
		tickAway(0)
		var left [2][]Entry[int, int]
		for i := range left {
			s.Go(func() { left[i] = s.m.Close() })
		}
		s.Race(0)
		require.ElementsMatch(s, []Entry[int, int]{{key, 1}, {key, 2}}, append(left[0], left[1]...))
		require.True(s, len(left[0]) == 0 || len(left[1]) == 0, "%v and %v: each has some", left[0], left[1])
	}),
	// A TouchIf meets a Touch to a later deadline, and an expiry. What TouchIf or Touch has returned does not expire before, and the
	// deadline of the Touch stays.
	"TouchIf": search(plain, timed, func(s *scene) {
		s.set(1, 0)
		tickAway(0)
		touched, ok := 0, false
		s.Go(func() { touched = s.touch() })
		s.Go(func() { _, ok = s.m.TouchIf(key, 3*hour, func(int, time.Time) bool { return true }) })
		s.Race(tick)
		testkit.Pass(10 * tick)
		require.Equal(s, touched == 0 && !ok, len(s.expired) == 1, "%v, %v", touched, ok)
		require.Empty(s, s.m.shards[0].updates)
	}),
	// Two keys expire, and the map lets one call run at a time. Both are called for, one after the other.
	"Limit": search(plain.Bounded(3), timed.Bounded(3), func(s *scene) {
		running := 0
		s.timer.Stop() // so that tasks may run
		s.m.expired = func(k, value int) {
			running++
			require.Equal(s, 1, running)
			s.expired = append(s.expired, value)
			running--
		}
		s.m.limit = newLimit[int, int](s.timer, 1)
		items := []*item[int, int]{{shard: &s.m.shards[0], key: 1, value: 1}, {shard: &s.m.shards[0], key: 2, value: 2}}
		s.m.shards[0].overdue = map[*item[int, int]]struct{}{items[0]: {}, items[1]: {}}
		for _, it := range items {
			s.Go(func() { it.Run(nil) })
		}
		s.Race(0)
		require.ElementsMatch(s, []int{1, 2}, s.expired)
		require.Empty(s, s.m.limit.calling)
		require.Empty(s, s.m.limit.waiting)
	}),
	// Tasks leave their keys to each other. Each key is taken out, and none stays on the stack.
	"Leave": search(plain.Bounded(3), plain, func(s *scene) {
		s.timer.Stop() // so that tasks may run
		shard := &s.m.shards[0]
		shard.items = make(map[int]*item[int, int])
		for k := range 3 {
			it := &item[int, int]{shard: shard, key: k}
			shard.items[k] = it
			s.Go(func() { it.Run(nil) })
		}
		s.Race(0)
		require.Len(s, s.expired, 3)
		require.Empty(s, shard.items)
		require.Nil(s, shard.leaving.Load())
	}),
	// A key is set again with a delay that ends at once. The task finds the new value.
	"SetExpiry": search(timed.Quickly(2), timed, func(s *scene) {
		s.set(1, hour)
		tickAway(0)
		s.Go(func() { s.set(2, 0) })
		s.Race(0)
		testkit.Pass(10 * tick)
		require.Equal(s, []int{2}, s.expired)
	}),
	// A new key expires while it is set. The task finds the key and the value.
	"AddExpiry": search(timed.Quickly(2), timed, func(s *scene) {
		tickAway(0)
		s.Go(func() { s.set(1, 0) })
		s.race(0)
		require.Equal(s, []int{1}, s.expired)
	}),
})
