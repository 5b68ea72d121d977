package hashedwheel

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A named is a task with a name.
type named struct {
	name string
	run  func()
}

func (n *named) Run(*Timeout) {
	if n.run != nil {
		n.run()
	}
}

// namesOf returns the names of the pending tasks, sorted, and their times.
func namesOf(timer *Timer) (names []string, due map[string]time.Time) {
	due = make(map[string]time.Time)
	for task, at := range timer.Tasks() {
		name := task.(*named).name
		names = append(names, name)
		due[name] = at
	}
	slices.Sort(names)
	return names, due
}

// Tasks yields each pending timeout once, with its boundary, wherever it is: in the nursery, the inbox, each level of the
// wheel, on the list of a pool, and at work. It yields none that has ended.
func TestTasksEverywhere(t *testing.T) {
	const tick = 10 * time.Millisecond
	for levels := 1; levels <= 4; levels++ {
		t.Run(fmt.Sprint("levels=", levels), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const hanging = 4 * chunkLen
				timer := newTimer(t, WithTick(tick), WithWheelSize(8), WithLevels(levels), WithMaxConcurrency(1+hanging))
				release := make(chan struct{})
				end := sync.OnceFunc(func() { close(release) })
				defer end()
				hang := func() { <-release }
				want := map[string]*Timeout{}
				arm := func(name string, delay time.Duration, run func()) *Timeout {
					to, err := timer.NewTimeout(&named{name, run}, delay)
					require.NoError(t, err)
					want[name] = to
					return to
				}
				check := func() {
					t.Helper()
					names, due := namesOf(timer)
					var all []string
					for name, to := range want {
						if status(to.word.Load()) == pending {
							all = append(all, name)
							if !due[name].Equal(to.Deadline()) { // require takes long
								t.Fatalf("%s is due at %v instead of %v", name, due[name], to.Deadline())
							}
						}
					}
					slices.Sort(all)
					require.Equal(t, all, names)
					require.Len(t, names, timer.Pending())
				}
				check()
				for i := range 300 { // in nurseries and inboxes, then on all levels
					arm(fmt.Sprint("far ", i), time.Duration(i*i)*tick, nil)
				}
				arm("never", math.MaxInt64, nil)
				check()
				require.True(t, arm("canceled", time.Hour, nil).Cancel())
				check()
				pass(2 * time.Second)
				check()
				require.True(t, want["far 200"].Cancel())
				moved := want["far 201"]
				require.True(t, moved.Move(time.Second))
				check()
				repeats := func(name string, task Task) {
					to, err := timer.ScheduleAtFixedRate(task, 0, tick)
					require.NoError(t, err)
					want[name] = to
				}
				repeats("at work", &named{"at work", hang})
				repeats("now and then", &named{"now and then", nil})
				for range sized(30, 100, 100) {
					pass(tick)
					check()
				}
				for i := range hanging {
					arm(fmt.Sprint("hangs ", i), tick, hang)
				}
				time.Sleep(time.Until(want["hangs 0"].Deadline()))
				synctest.Wait()
				require.NotZero(t, timer.tasks.Waiting())
				check()
				pass(3 * tick)
				require.Equal(t, 1+hanging, timer.Stats().Running, "none starts any more")
				for i := range hanging {
					arm(fmt.Sprint("waits ", i), tick, nil)
				}
				pass(3 * tick)
				require.GreaterOrEqual(t, timer.Stats().Due, hanging)
				check()
				end()
				pass(time.Second)
				check()
				timer.Stop()
				check()
			})
		})
	}
}

// Members of a group, Cancelers and repeating timeouts come as the user's task. A Sleep tells what it is.
func TestTasksAreTheUsers(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t)
		g := NewGroup(timer)
		user := &named{name: "user"}
		_, err := g.NewTimeout(user, time.Hour)
		require.NoError(t, err)
		_, err = g.Schedule(user, Every(time.Hour))
		require.NoError(t, err)
		_, err = timer.ScheduleWithFixedDelay(user, time.Hour, time.Hour)
		require.NoError(t, err)
		n := 0
		for task := range timer.Tasks() {
			require.Same(t, user, task)
			n++
		}
		require.Equal(t, 3, n)
		g.Close()
		timer.Stop()

		timer = newTimer(t)
		ctx, cancel := context.WithCancel(t.Context())
		go timer.Sleep(ctx, time.Minute)
		synctest.Wait()
		for task := range timer.Tasks() {
			require.Equal(t, "hashedwheel.Timer.Sleep", fmt.Sprint(task))
			n++
		}
		require.Equal(t, 4, n)
		cancel()
		synctest.Wait() // not while the end of the test checks the timer
	})
}

// The loop may end early, panic, and call every method.
func TestTasksLoop(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const n = 5000
		timer := newTimer(t)
		var all []*Timeout
		for range n {
			to, err := timer.NewTimeout(&named{}, time.Hour)
			require.NoError(t, err)
			all = append(all, to)
		}
		pass(2 * time.Second)
		tasks := timer.Tasks()
		for range tasks {
			break
		}
		require.Panics(t, func() {
			for range tasks {
				panic("in the loop")
			}
		})

		seen := 0
		for range tasks {
			switch seen++; seen {
			case 1:
				inner := 0
				for range tasks {
					inner++
				}
				require.Equal(t, n, inner)
				require.Equal(t, n, timer.Pending())
			case 2:
				for _, to := range all[:100] {
					to.Cancel()
				}
				_, err := timer.AfterFunc(time.Minute, nop)
				require.NoError(t, err)
			case 100:
				time.Sleep(time.Second)
			}
		}
		require.GreaterOrEqual(t, seen, n-100)
		require.LessOrEqual(t, seen, n+1)
		seen = 0
		for range tasks {
			if seen++; seen == 10 {
				require.NotEmpty(t, timer.Stop())
			}
		}
		require.Equal(t, 10, seen)
		for range tasks {
			t.Fatal("a stopped timer")
		}
	})
}

// While goroutines arm, cancel and reset timeouts, and others expire and repeat, each timeout that stays pending, and is neither
// reset nor repeating, comes exactly once. None comes twice. The test runs on real time, because it tests races.
func TestTasksRace(t *testing.T) {
	seeds := newRand(t)
	walks := 0
	for end := time.Now().Add(stressTime(t)); goesOn(end, walks > 10); {
		const tick = 200 * time.Microsecond
		opts := []Option{WithTick(tick), WithWheelSize(1 << seeds.IntN(5)), WithLevels(1 + seeds.IntN(4))}
		if seeds.IntN(3) == 0 {
			opts = append(opts, WithMaxConcurrency(1+seeds.IntN(3)))
		}
		timer := newTimer(t, opts...)
		stay := make(map[Task]bool)
		arm := func(task *named, delay time.Duration) {
			_, err := timer.NewTimeout(task, delay)
			require.NoError(t, err)
			stay[task] = true
		}
		for range 200 {
			arm(&named{name: "far"}, time.Hour+time.Duration(seeds.Int64N(int64(time.Hour))))
			arm(&named{name: "near"}, time.Duration(5+seeds.IntN(50))*time.Minute) // not due before the end, also on a busy machine
		}
		for i := range 200 {
			task := &named{name: "reset before"}
			to, err := timer.NewTimeout(task, time.Second+time.Duration(i)*tick)
			require.NoError(t, err)
			_, err = to.Reset(time.Hour) // so it moves back when the worker comes upon it, and may be missed
			require.NoError(t, err)
		}
		for i := range 20 {
			_, err := timer.ScheduleAtFixedRate(&named{name: "repeats"}, 0, time.Duration(1+i)*tick)
			require.NoError(t, err)
		}
		var over atomic.Bool
		var users sync.WaitGroup
		for range 3 {
			rnd := rand.New(rand.NewPCG(seeds.Uint64(), 0))
			users.Go(func() {
				var mine []*Timeout
				for !over.Load() {
					delay := time.Duration(rnd.IntN(int(2 * time.Second)))
					if rnd.IntN(2) == 0 {
						delay = time.Duration(rnd.IntN(3)) * tick
					}
					to, err := timer.NewTimeout(&named{name: "churn"}, delay)
					if !assert.NoError(t, err) {
						return
					}
					if mine = append(mine, to); len(mine) > 1000 {
						for _, to := range mine {
							if rnd.IntN(4) == 0 {
								to.Reset(delay)
							}
							to.Cancel()
						}
						mine = mine[:0]
						time.Sleep(time.Duration(rnd.IntN(1000)) * time.Microsecond)
					}
				}
			})
		}
		for range 10 {
			seen := make(map[Task]int)
			for task := range timer.Tasks() {
				seen[task]++
				require.Equal(t, 1, seen[task], "%v comes twice", task)
			}
			for task := range stay {
				require.Equal(t, 1, seen[task], "%v", task)
			}
			walks++
			runtime.Gosched()
		}
		over.Store(true)
		users.Wait()
	}
}
