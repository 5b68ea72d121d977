package hashedwheel

import (
	"context"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/ticks"
	"github.com/hashedwheel/hashedwheel/internal/warn"
)

// messages returns what the log has since the start of a bubble: for each line the time, the level and the rest.
func messages(log fmt.Stringer, start time.Time) (all []string) {
	line := regexp.MustCompile(`time=(\S+) level=(\S+) msg="?hashedwheel: (.*)`)
	for _, m := range line.FindAllStringSubmatch(log.String(), -1) {
		at, err := time.Parse(time.RFC3339Nano, m[1])
		if err != nil {
			panic(err)
		}
		all = append(all, fmt.Sprintf("%v %s %s", at.Sub(start).Round(time.Millisecond), m[2], strings.Replace(m[3], `"`, "", 1)))
	}
	return all
}

// While tasks that are due wait, the log says so after a second and then once a minute, with how many, since when and
// why. When they wait no longer, it says so once.
func TestStallIsLogged(t *testing.T) {
	release := func() (wait func(), all func()) {
		ch := make(chan struct{})
		return func() { <-ch }, func() { close(ch) }
	}
	const tick, n = 100 * time.Millisecond, 1000
	for _, c := range []struct {
		name, want string
		running    int
		options    func(t *testing.T, hang func()) []Option
	}{
		{"limit", "WithMaxConcurrency(2): as many tasks run", 2, func(*testing.T, func()) []Option {
			return []Option{WithMaxConcurrency(2)}
		}},
		{"executor", "the executor: it has not run 998 functions that it has taken", 2, func(t *testing.T, hang func()) []Option {
			queue := make(chan func(), n)
			for range 2 {
				go func() {
					for run := range queue {
						run()
					}
				}()
			}
			t.Cleanup(func() { close(queue) })
			return []Option{WithExecutor(func(run func()) error { queue <- run; return nil })}
		}},
		{"submit", "the executor: its submit blocks", 2, func(t *testing.T, hang func()) []Option {
			free := make(chan bool, 2)
			return []Option{WithExecutor(func(run func()) error {
				free <- true
				go func() { run(); <-free }()
				return nil
			})}
		}},
		{"both", "the executor: it has not run 1 functions that it has taken", 1, func(t *testing.T, hang func()) []Option {
			var first atomic.Bool
			return []Option{WithMaxConcurrency(2), WithExecutor(func(run func()) error {
				if first.CompareAndSwap(false, true) {
					go run()
				} else {
					go func() { hang(); run() }()
				}
				return nil
			})}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				option, log := logged()
				hang, end := release()
				timer := newTimer(t, append(c.options(t, hang), WithTick(tick), option)...)
				start := time.Now()
				for range n {
					_, err := timer.AfterFunc(tick, hang)
					require.NoError(t, err)
				}
				pass(3*time.Minute - 500*time.Millisecond)
				end()
				pass(5 * time.Minute)
				require.Zero(t, timer.Pending())
				warn := func(at, late string) string {
					return fmt.Sprintf("%s WARN tasks are due and wait for %s waiting=%d late=%s running=%d",
						at, c.want, n-c.running, late, c.running)
				}
				require.Equal(t, []string{
					warn("1.1s", "1s"), warn("1m1.1s", "1m1s"), warn("2m1.1s", "2m1s"),
					"2m59.6s INFO tasks no longer wait lasted=3m0s",
				}, messages(log, start))
			})
		})
	}
}

// Tasks that wait for less than a second are not worth a message, nor is a wait that begins within a minute of the last
// warning and is over before.
func TestShortStallsAreNotLogged(t *testing.T) {
	virtual(t, func(t *testing.T) {
		option, log := logged()
		const tick = 100 * time.Millisecond
		timer := newTimer(t, WithTick(tick), WithMaxConcurrency(1), option)
		start := time.Now()
		stall := func(length time.Duration) { // the second task waits for that long
			for range 2 {
				_, err := timer.AfterFunc(tick, func() { time.Sleep(length) })
				require.NoError(t, err)
			}
			pass(10 * time.Second)
		}
		stall(900 * time.Millisecond)
		require.Empty(t, messages(log, start))
		for range 6 {
			stall(1900 * time.Millisecond)
		}
		stall(1900 * time.Millisecond)
		require.Equal(t, []string{
			"11.1s WARN tasks are due and wait for WithMaxConcurrency(1): as many tasks run waiting=1 late=1s running=1",
			"12.1s INFO tasks no longer wait lasted=2s",
			"1m11.1s WARN tasks are due and wait for WithMaxConcurrency(1): as many tasks run waiting=1 late=1s running=1",
			"1m12.1s INFO tasks no longer wait lasted=2s",
		}, messages(log, start))
	})
}

// While more and more tasks wait, the log does not say that they no longer wait, although there is a moment at which none has
// waited for a second yet. It says so when none waits.
func TestStallEndsWhenNothingWaits(t *testing.T) {
	virtual(t, func(t *testing.T) {
		option, log := logged()
		const tick = 100 * time.Millisecond
		timer := newTimer(t, WithTick(tick), WithMaxConcurrency(1), option)
		start := time.Now()
		arm := func(delay, length time.Duration) {
			_, err := timer.AfterFunc(delay, func() { time.Sleep(length) })
			require.NoError(t, err)
		}
		arm(tick, 1550*time.Millisecond)
		arm(2*tick, 100*time.Millisecond) // waits for 1.45 s
		for i := range 200 {              // one comes each 500 ms, and takes a second
			arm(1500*time.Millisecond+time.Duration(i)*500*time.Millisecond, time.Second)
		}
		pass(10 * time.Minute)
		warn := func(at, late string, waiting int) string {
			return fmt.Sprintf("%s WARN tasks are due and wait for WithMaxConcurrency(1): as many tasks run waiting=%d late=%s running=1",
				at, waiting, late)
		}
		require.Equal(t, []string{
			warn("1.2s", "1s", 1), warn("1m1.6s", "30.1s", 61), warn("2m1.6s", "1m0.1s", 80), warn("3m1.6s", "1m30.1s", 20),
			"3m21.1s INFO tasks no longer wait lasted=3m21s",
		}, messages(log, start))
	})
}

// On a busy timer some task always waits for a moment. Three waits of six seconds each, a minute and more apart, are three in the log.
func TestStallEndsOnABusyTimer(t *testing.T) {
	virtual(t, func(t *testing.T) {
		option, log := logged()
		timer := newTimer(t, WithMaxConcurrency(1), option)
		start := time.Now()
		for range 3 {
			_, err := timer.ScheduleAtFixedRate(TaskFunc(func(*Timeout) { time.Sleep(10 * time.Millisecond) }), 0, 100*time.Millisecond)
			require.NoError(t, err)
		}
		for i := range 3 {
			_, err := timer.AfterFunc(time.Duration(10+70*i)*time.Second, func() { time.Sleep(6 * time.Second) })
			require.NoError(t, err)
		}
		pass(4 * time.Minute)
		timer.Stop()
		pass(time.Second)
		all := messages(log, start)
		require.Len(t, all, 6, all)
		for i, line := range all {
			if i%2 == 0 {
				require.Regexp(t, ` WARN tasks are due and wait for WithMaxConcurrency\(1\): as many tasks run waiting=\d+ late=1\S*s running=1$`, line)
			} else {
				require.Regexp(t, ` INFO tasks no longer wait lasted=[67]\S*s$`, line)
			}
		}
	})
}

// While a million tasks compute, the worker comes late because they do. The log does not blame the machine, unless a limit makes them wait.
func TestLateWorkerInADrain(t *testing.T) {
	for limit, machine := range map[int]bool{0: false, 1: true} {
		synctest.Test(t, func(t *testing.T) {
			option, log := logged()
			timer := newTimer(t, WithMaxConcurrency(limit), option)
			hold(t, timer)
			release := make(chan struct{})
			timer.tasks.Procs = 1
			for range manyDue + 100 {
				_, err := timer.AfterFunc(0, func() { <-release })
				require.NoError(t, err)
			}
			time.Sleep(timer.Tick())
			w := &timer.worker
			w.round()
			w.late = warn.Lateness{} // the round has left something to the next one
			w.late.Add(3 * time.Second)
			timer.warn(ending{elapsed: timer.clock.Elapsed()})
			synctest.Wait()
			close(release)
			require.Equal(t, machine, strings.Contains(log.String(), "machine"), log)
		})
	}
}

// A repeating task that is slower than its period is late, but it does not wait.
func TestSlowRatesDoNotWait(t *testing.T) {
	virtual(t, func(t *testing.T) {
		option, log := logged()
		const tick = 2 * time.Millisecond
		timer := newTimer(t, WithTick(tick), option)
		start := time.Now()
		for i := range 40 {
			task := TaskFunc(func(*Timeout) { time.Sleep(time.Duration(i%5) * tick) })
			_, err := timer.ScheduleAtFixedRate(task, tick, tick)
			require.NoError(t, err)
			_, err = timer.Schedule(task, Every(tick))
			require.NoError(t, err)
		}
		pass(sized[time.Duration](3, 10, 10) * time.Second)
		_, err := timer.Shutdown(t.Context())
		require.NoError(t, err)
		require.Empty(t, messages(log, start))
	})
}

// The worker has so much to do that it is seconds late. Each task that it hands over waits for much less than a second, although
// some task waits at any time. So the log says that the worker is late, and not that tasks wait.
func TestLateTasksDoNotWait(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick, n, step = 100 * time.Millisecond, 6000, time.Millisecond
		option, log := logged()
		timer := newTimer(t, WithTick(tick), WithMaxConcurrency(1), option)
		giveBack := hold(t, timer)
		start := time.Now()
		for range n {
			_, err := timer.AfterFunc(tick, func() { time.Sleep(step * 11 / 20) }) // a little slower than the worker
			require.NoError(t, err)
		}
		timer.worker.round() // places them in the wheel
		timer.worker.wheel.budget = 2
		timer.worker.lookUp = func(bool) {
			if timer.worker.wheel.isBehind() {
				time.Sleep(step)
			}
		}
		giveBack()
		pass(n * step)
		_, err := timer.Shutdown(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"1.2s WARN timeouts fired late; very many were armed, canceled or due at once late=1.1s"}, messages(log, start))
	})
}

// Tasks do not wait while the machine is suspended, neither those handed over before nor those that come due meanwhile. So the
// log says only that it was suspended. Tasks that wait for a second afterwards are in the log too.
func TestSuspensionIsNotAStall(t *testing.T) {
	const tick, n = 100 * time.Millisecond, 3000
	late := func(at, late string) string {
		return at + " WARN timeouts fired late; machine overloaded or suspended late=" + late
	}
	onTime := func(at, lasted string) string { return at + " INFO timeouts fire on time again lasted=" + lasted }
	stall := func(at string) string {
		return at + " WARN tasks are due and wait for WithMaxConcurrency(1): as many tasks run waiting=3001 late=1s running=1"
	}
	for _, c := range []struct {
		before, length, after time.Duration // how long a task waits before the suspension, meanwhile and then
		want                  []string
	}{
		{50 * time.Millisecond, 900 * time.Millisecond, time.Millisecond, nil},
		{50 * time.Millisecond, 1500 * time.Millisecond, time.Millisecond, []string{late("1.75s", "1.35s"), onTime("1.8s", "1.35s")}},
		{950 * time.Millisecond, 1500 * time.Millisecond, time.Millisecond, []string{late("2.65s", "1.35s"), onTime("2.7s", "1.35s")}},
		{50 * time.Millisecond, 3 * time.Second, time.Millisecond, []string{late("3.25s", "2.85s"), onTime("3.3s", "2.85s")}},
		{50 * time.Millisecond, 3 * time.Second, 2100 * time.Millisecond, []string{
			late("3.25s", "2.85s"), onTime("3.3s", "2.85s"), stall("4.25s"), "5.75s INFO tasks no longer wait lasted=2.5s",
		}},
		{50 * time.Millisecond, time.Hour, 2100 * time.Millisecond, []string{
			late("1h0m0.25s", "1h0m0s"), stall("1h0m1.25s"),
			"1h0m2.75s INFO tasks no longer wait lasted=2.5s", onTime("1h0m10.3s", "1h0m0s"),
		}},
	} {
		virtual(t, func(t *testing.T) {
			option, log := logged()
			timer := newTimer(t, WithTick(tick), WithMaxConcurrency(1), option)
			start := time.Now()
			arm := func(delay, length time.Duration) {
				_, err := timer.AfterFunc(delay, func() { time.Sleep(length) })
				require.NoError(t, err)
			}
			arm(tick, tick+c.before+c.length+c.after) // the next one waits for it
			arm(2*tick, 0)
			for i := range n { // due during the suspension
				arm(3*tick+c.before+time.Duration(i)*c.length/n, 0)
			}
			pass(2*tick + c.before)
			giveBack := hold(t, timer)
			pass(c.length)
			giveBack()
			arm(10*time.Second, 0)
			pass(20 * time.Second)
			require.Zero(t, timer.Pending())
			require.Equal(t, c.want, messages(log, start), "%v, %v, %v", c.before, c.length, c.after)
		})
	}
}

// To notice a stall costs no wake-up, unless tasks wait for more than a tick. Then it costs two a second.
func TestWakeupsForAStall(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick = 10 * time.Millisecond
		option, _ := logged()
		timer := newTimer(t, WithTick(tick), WithMaxConcurrency(1), option)
		_, err := timer.AfterFunc(time.Hour, nop)
		require.NoError(t, err)
		arm := func(task func()) {
			_, err := timer.AfterFunc(tick, task)
			require.NoError(t, err)
			pass(2 * tick)
		}
		arm(nop)
		pass(settled) // from here the timeout of an hour is in the wheel
		before := timer.Stats().Wakeups
		pass(10 * time.Minute)
		require.Equal(t, before, timer.Stats().Wakeups)
		release := make(chan struct{})
		arm(func() { <-release })
		arm(func() { <-release })
		pass(time.Second)
		before = timer.Stats().Wakeups
		pass(10 * time.Minute)
		require.EqualValues(t, 1200, timer.Stats().Wakeups-before)
		close(release)
		pass(time.Second)
		before = timer.Stats().Wakeups
		pass(10 * time.Minute)
		require.Equal(t, before, timer.Stats().Wakeups)
	})
}

// The log does not blame the machine if the worker had more to do than it could in a tick.
func TestLateWorkerThatIsBehind(t *testing.T) {
	for _, behind := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			option, log := logged()
			timer := newTimer(t, option)
			hold(t, timer)
			timer.worker.late.Add(3 * time.Second)
			timer.warn(ending{behind: behind})
			synctest.Wait()
			require.Equal(t, !behind, strings.Contains(log.String(), "machine overloaded or suspended\" late=3s"), log)
		})
	}
}

// Tasks come due in a round that is not the last of several, because many timeouts have to move down a level. The log says
// that the tasks wait.
func TestStallWhileTimeoutsMoveDown(t *testing.T) {
	virtual(t, func(t *testing.T) {
		option, log := logged()
		const tick = 100 * time.Millisecond
		timer := newTimer(t, WithTick(tick), WithWheelSize(8), WithLevels(8), WithMaxConcurrency(1), option)
		start := time.Now()
		hang := make(chan struct{})
		defer close(hang)
		for range 3 * worthWaking { // a block of a level high up
			_, err := timer.AfterFunc(1<<16*tick-1, nop)
			require.NoError(t, err)
		}
		pass(time.Second)
		next := start.Add(timer.clock.Boundary(timer.worker.wheel.nextVisit))
		for range 2 { // due when these move down
			_, err := timer.NewTimeoutAt(TaskFunc(func(*Timeout) { <-hang }), next)
			require.NoError(t, err)
		}
		pass(time.Until(next) + 10*time.Second)
		require.Len(t, messages(log, next), 1)
	})
}

// The first entry on the list may be stale: its timeout is in a bucket, or nowhere. Then a wait counts from the first one that waits.
func TestStaleEntryDoesNotWait(t *testing.T) {
	for _, bucket := range []uint32{0, 7} {
		synctest.Test(t, func(t *testing.T) {
			option, log := logged()
			timer := newFakedTimer(t, option)
			hold(t, timer)
			timer.tasks.Limit = -1
			const now = time.Minute
			timer.worker.waits.Due(now, true)
			timer.tasks.Add(&Timeout{timer: timer, bucket: bucket})
			timer.tasks.Add(&Timeout{timer: timer, bucket: listedAt(now + 100*time.Millisecond)})
			timer.checkWaits(now + time.Second)
			synctest.Wait()
			require.Empty(t, log.String())
			timer.checkWaits(now + 1100*time.Millisecond)
			synctest.Wait()
			require.Equal(t, 1, strings.Count(log.String(), "tasks are due and wait"))
		})
	}
}

// A late worker finds only a timeout that has been canceled. Nothing fires late.
func TestCanceledIsNotLate(t *testing.T) {
	virtual(t, func(t *testing.T) {
		option, log := logged()
		timer := newTimer(t, WithTick(time.Millisecond), option)
		to, err := timer.AfterFunc(10*time.Second, nop)
		require.NoError(t, err)
		_, err = timer.AfterFunc(time.Hour, nop)
		require.NoError(t, err)
		pass(5 * time.Second) // from here both are in the wheel
		giveBack := hold(t, timer)
		require.True(t, to.Cancel())
		pass(10 * time.Second)
		giveBack()
		pass(time.Second)
		require.Empty(t, log.String())
	})
}

// More and more tasks hang. After six minutes the log says so, once a minute, with the function that most of them are in, how
// many calls are long, and for how long. When no more come, it says nothing. When they return, nothing is left.
func TestHangIsLogged(t *testing.T) {
	virtual(t, func(t *testing.T) {
		option, log := logged()
		timer := newTimer(t, option)
		start := time.Now()
		release := make(chan struct{})
		end := sync.OnceFunc(func() { close(release) })
		defer end()
		for i := range 1200 {
			task := func() { <-release }
			if i%12 == 0 {
				task = func() { hangs(release) }
			}
			_, err := timer.AfterFunc(250*time.Millisecond+time.Duration(i)*500*time.Millisecond, task) // none at the moment of a look
			require.NoError(t, err)
		}
		far, err := timer.AfterFunc(100*time.Hour, nop)
		require.NoError(t, err)
		for i := range 15 * 60 * 10 { // a round at each tick
			_, err := far.Reset(100*time.Hour - time.Duration(i)*time.Second)
			require.NoError(t, err)
			pass(100 * time.Millisecond)
		}
		var want []string
		for minute := 6; minute <= 11; minute++ {
			long := min(120*(minute-1), 1200)
			want = append(want, fmt.Sprintf("%dm0s WARN more and more calls do not return; most are hashedwheel.TestHangIsLogged.func1.2 calls=%d most=%d longest=%dm0s running=%d",
				minute, long, long/12*11, minute-1, min(120*minute, 1200)))
		}
		require.Equal(t, want, messages(log, start))
		end()
		pass(time.Second)
		require.Zero(t, timer.Stats().Running)
	})
}

func hangs(release chan struct{}) { <-release }

// Tasks that are long by design are not in the log: some that run all the time, and others that take three minutes each, of
// which as many end as begin after a while.
func TestLongTasksAreNotLogged(t *testing.T) {
	virtual(t, func(t *testing.T) {
		option, log := logged()
		timer := newTimer(t, option)
		release := make(chan struct{})
		for i := range 40 {
			_, err := timer.AfterFunc(time.Duration(i)*5*time.Second, func() { <-release }) // for all of the test
			require.NoError(t, err)
		}
		for i := range 360 {
			length := 3*time.Minute + time.Duration(i%20)*time.Second
			_, err := timer.AfterFunc(time.Duration(i)*5*time.Second, func() { time.Sleep(length) })
			require.NoError(t, err)
			_, err = timer.NewTimeout(TaskFunc(func(to *Timeout) { time.Sleep(length) }), time.Duration(i)*5*time.Second)
			require.NoError(t, err)
		}
		pass(30 * time.Minute)
		close(release)
		pass(time.Hour)
		require.Empty(t, log.String())
	})
}

// A stuckTask is stuck where it says.
type stuckTask struct{ release chan struct{} }

func (s *stuckTask) Run(*Timeout)      {}
func (s *stuckTask) Canceled(*Timeout) { <-s.release }
func (s *stuckTask) Next(prev time.Time) time.Time {
	if prev.Nanosecond() != 0 { // a run is over
		<-s.release
		return time.Time{}
	}
	return prev.Add(time.Millisecond)
}

// One call is enough for a warning where no program waits by design. The log names it, Stats count it until it has returned, and the
// timer does not wake up again while nothing changes. The minute of a call counts from when it began, and not from the run before it.
func TestStuckCallsAreLogged(t *testing.T) {
	handled := func(run time.Duration) func(timer *Timer, s *stuckTask) error {
		return func(timer *Timer, s *stuckTask) error {
			timer.panicHandler = s.handle
			_, err := timer.AfterFunc(0, func() { time.Sleep(run); panic("on purpose") })
			return err
		}
	}
	scheduled := func(run time.Duration) func(timer *Timer, s *stuckTask) error {
		return func(timer *Timer, s *stuckTask) error {
			_, err := timer.Schedule(TaskFunc(func(*Timeout) { time.Sleep(run) }), s)
			return err
		}
	}
	for name, c := range map[string]struct {
		play     func(timer *Timer, s *stuckTask) error
		at, most string
	}{
		"Next":                        {scheduled(0), "1m1.1s", "*hashedwheel.stuckTask.Next"},
		"Next after a run":            {scheduled(5 * time.Second), "1m6.1s", "*hashedwheel.stuckTask.Next"},
		"Next after a long run":       {scheduled(5 * time.Minute), "6m1.1s", "*hashedwheel.stuckTask.Next"},
		"panic handler":               {handled(0), "1m1.1s", "hashedwheel.(*stuckTask).handle-fm"},
		"panic handler after a run":   {handled(5 * time.Second), "1m6.1s", "hashedwheel.(*stuckTask).handle-fm"},
		"panic handler of a long run": {handled(5 * time.Minute), "6m1.1s", "hashedwheel.(*stuckTask).handle-fm"},
		"Next in a group": {func(timer *Timer, s *stuckTask) error {
			_, err := NewGroup(timer).Schedule(TaskFunc(func(*Timeout) {}), s)
			return err
		}, "1m1.1s", "*hashedwheel.stuckTask.Next"},
		"Canceled": {func(timer *Timer, s *stuckTask) error {
			to, err := timer.NewTimeout(s, time.Hour)
			to.Cancel()
			return err
		}, "1m1s", "*hashedwheel.stuckTask.Canceled"},
		"WaitRunning": {func(timer *Timer, s *stuckTask) error {
			_, err := timer.NewTimeout(TaskFunc(waitsForItself), 0)
			return err
		}, "1m1.1s", "hashedwheel.waitsForItself"},
		"WaitRunning of a group": {func(timer *Timer, s *stuckTask) error {
			g := NewGroup(timer)
			waitsForGroup = func() { g.WaitRunning(waiting) }
			_, err := g.AfterFunc(0, waitsForItsGroup)
			return err
		}, "1m1.1s", "hashedwheel.waitsForItsGroup"},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				option, log := logged()
				timer := newTimer(t, option)
				start := time.Now()
				s := &stuckTask{make(chan struct{})}
				end := sync.OnceFunc(func() { close(s.release) })
				defer end()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				waiting = ctx
				require.NoError(t, c.play(timer, s))
				pass(time.Minute)
				require.Zero(t, timer.Stats().Stuck)
				pass(6 * time.Minute)
				const line = "%s WARN calls that should return soon do not return; most are %s calls=1 most=1 longest=%s running=1"
				all := messages(log, start)
				require.Len(t, all, 1)
				require.Regexp(t, regexp.MustCompile(`longest=1m[01]s`), all[0])
				longest := all[0][strings.Index(all[0], "longest=")+8:]
				longest, _, _ = strings.Cut(longest, " ")
				require.Equal(t, fmt.Sprintf(line, c.at, c.most, longest), all[0])
				st := timer.Stats()
				require.Equal(t, []int{1, 1}, []int{st.Running, st.Stuck})
				pass(time.Hour)
				require.Len(t, messages(log, start), 1)
				require.Equal(t, st.Wakeups, timer.Stats().Wakeups)
				end()
				cancel()
				pass(0)
				require.Zero(t, timer.Stats().Stuck)
			})
		})
	}
}

func (s *stuckTask) handle(*Timeout, any, []byte) { <-s.release }

var waitsForGroup func() // of waitsForItsGroup

func waitsForItsGroup() { waitsForGroup() }

// A task may run for minutes, and then its panic handler or its Next for a few seconds. Nothing hangs.
func TestShortCallsAfterLongRunsAreNotLogged(t *testing.T) {
	virtual(t, func(t *testing.T) {
		option, log := logged()
		timer := newTimer(t, option, WithPanicHandler(func(*Timeout, any, []byte) { time.Sleep(3 * time.Second) }))
		_, err := timer.ScheduleAtFixedRate(TaskFunc(func(*Timeout) {}), 0, time.Second) // rounds come
		require.NoError(t, err)
		for i := range 60 { // at each second of a minute
			_, err := timer.AfterFunc(time.Duration(i)*time.Second, func() { time.Sleep(2 * time.Minute); panic("on purpose") })
			require.NoError(t, err)
			_, err = timer.Schedule(TaskFunc(func(*Timeout) { time.Sleep(2 * time.Minute) }), new(slowSchedule))
			require.NoError(t, err)
			pass(time.Second)
		}
		pass(10 * time.Minute)
		require.Empty(t, log.String())
		require.Zero(t, timer.Stats().Stuck)
		timer.Stop()
		pass(time.Hour)
	})
}

// Calls of the panic handler for one timeout may overlap, so that there is always one in progress. None of them is long.
func TestOverlappingCallsAreNotLogged(t *testing.T) {
	virtual(t, func(t *testing.T) {
		option, log := logged()
		timer := newTimer(t, option, WithPanicHandler(func(*Timeout, any, []byte) { time.Sleep(1500 * time.Millisecond) }))
		to, err := timer.NewTimeout(TaskFunc(func(to *Timeout) {
			if _, err := to.Reset(time.Second); err != nil {
				t.Error(err)
			}
			panic("on purpose")
		}), 0)
		require.NoError(t, err)
		pass(5 * time.Minute)
		require.True(t, to.Cancel())
		require.Zero(t, timer.Stats().Stuck)
		pass(time.Minute)
		require.Empty(t, log.String())
		require.Empty(t, timer.handling.calls)
	})
}

// The Next of a slowSchedule takes three seconds after a run. There are two runs.
type slowSchedule struct{ asked int }

func (s *slowSchedule) Next(prev time.Time) time.Time {
	if s.asked++; s.asked == 1 {
		return prev.Add(time.Second)
	}
	time.Sleep(3 * time.Second)
	if s.asked == 3 {
		return time.Time{}
	}
	return prev.Add(time.Second)
}

// Tasks that wait for themselves are in the log, also if all of them begin at once and nothing follows.
func TestStuckCallsThatBeginAtOnce(t *testing.T) {
	virtual(t, func(t *testing.T) {
		option, log := logged()
		timer := newTimer(t, option)
		start := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		waiting = ctx
		for range 1200 {
			_, err := timer.NewTimeout(TaskFunc(waitsForItself), 0)
			require.NoError(t, err)
		}
		pass(time.Hour)
		require.Equal(t, []string{"1m1.1s WARN calls that should return soon do not return; most are hashedwheel.waitsForItself calls=1200 most=1200 longest=1m0s running=1200"},
			messages(log, start))
		require.Equal(t, 1200, timer.Stats().Stuck)
	})
}

// While one call hangs, another one begins that hangs too. It is in the log a minute after the first or later, although nothing comes due.
func TestCallsThatBeginLaterAreLogged(t *testing.T) {
	virtual(t, func(t *testing.T) {
		option, log := logged()
		timer := newTimer(t, option)
		start := time.Now()
		release := make(chan struct{})
		defer close(release)
		for range 3 {
			to, err := timer.NewTimeout(canceledBy(func() { <-release }), time.Hour)
			require.NoError(t, err)
			to.Cancel()
			pass(50 * time.Second)
		}
		pass(time.Hour)
		var lines []string
		for _, line := range messages(log, start) {
			lines = append(lines, regexp.MustCompile(`^\S+|calls=\d`).FindAllString(line, -1)...)
		}
		require.Equal(t, []string{"1m1s", "calls=1", "2m1s", "calls=2", "3m1s", "calls=3"}, lines)
	})
}

// The alarm of calls that should be brief is armed while one is in progress, and for at most a second after the last one.
func TestBriefCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := ticks.NewClock(time.Second)
		looks := 0
		b := briefs{look: func() { looks++ }, clock: &clock}
		expect := func(after time.Duration, state int32, n int) {
			t.Helper()
			pass(after)
			require.Equal(t, []int{int(state), n}, []int{int(b.state.Load()), looks})
		}
		b.begin()
		b.end()
		expect(0, aSecond, 0)
		expect(time.Second, off, 0)
		b.begin()
		expect(time.Second, aMinute, 1)
		b.begin()
		b.end()
		expect(0, aMinute, 1)
		b.end()
		expect(0, off, 1)
		expect(time.Hour, off, 1)
		b.begin()
		expect(61*time.Second, off, 3)
		expect(time.Hour, off, 3)
		b.begin() // the first one goes on
		expect(61*time.Second, off, 5)
		b.arm(aMinute) // as Timer.look does
		expect(0, aMinute, 5)
		b.end()
		b.end()
		expect(0, off, 5)
		b.arm(aMinute)
		expect(0, off, 5)
	})
}

// The warning of stuck calls counts these alone, and not the tasks that are long by design.
func TestStuckCallsAreLoggedAlone(t *testing.T) {
	virtual(t, func(t *testing.T) {
		option, log := logged()
		timer := newTimer(t, option)
		s := &stuckTask{make(chan struct{})}
		defer close(s.release)
		for range 5 {
			_, err := timer.AfterFunc(0, func() { <-s.release })
			require.NoError(t, err)
		}
		pass(5 * time.Minute)
		_, err := timer.AfterFunc(0, func() {}) // its round looks, so the round that Cancel starts does not, just as the call begins
		require.NoError(t, err)
		pass(time.Second)
		to, err := timer.NewTimeout(s, time.Hour)
		require.NoError(t, err)
		require.True(t, to.Cancel())
		pass(5 * time.Minute)
		require.Contains(t, log.String(), "most are *hashedwheel.stuckTask.Canceled\" calls=1 most=1 longest=1m0s running=6")
	})
}

// A second after the last call has returned, the runtime has no timer that leads to the timer: if it had, the garbage collector would
// not collect it. Time does not go on while the collector runs.
func TestNothingIsHeldAfterTheLastCall(t *testing.T) {
	const half = 30 * time.Second // not yet worth a warning
	for name, play := range map[string]func(timer *Timer) (*Timeout, error){
		"Canceled": func(timer *Timer) (*Timeout, error) {
			to, err := timer.NewTimeout(canceledBy(func() { time.Sleep(half) }), time.Hour)
			to.Cancel()
			return to, err
		},
		"short Canceled": func(timer *Timer) (*Timeout, error) {
			first, err := timer.NewTimeout(canceledBy(func() { time.Sleep(half - time.Millisecond) }), time.Hour)
			if err != nil {
				return nil, err
			}
			first.Cancel()
			time.Sleep(half - time.Millisecond)
			to, err := timer.NewTimeout(canceledBy(func() {}), time.Hour)
			to.Cancel()
			return to, err
		},
		"WaitRunning": func(timer *Timer) (*Timeout, error) {
			to, err := timer.AfterFunc(0, func() { time.Sleep(half - time.Second) })
			time.Sleep(time.Second)
			go to.WaitRunning(context.Background())
			return to, err
		},
		"Next": func(timer *Timer) (*Timeout, error) {
			first := true
			return timer.Schedule(TaskFunc(func(*Timeout) {}), scheduleFunc(func(prev time.Time) time.Time {
				if first {
					first = false
					return prev.Add(time.Millisecond)
				}
				time.Sleep(half - time.Second)
				return time.Time{}
			}))
		},
		"panic handler": func(timer *Timer) (*Timeout, error) {
			timer.panicHandler = func(*Timeout, any, []byte) { time.Sleep(half - time.Second) }
			return timer.AfterFunc(0, func() { panic("on purpose") })
		},
		"panics that are kept": func(timer *Timer) (to *Timeout, err error) {
			for range 3 {
				to, err = timer.AfterFunc(half-time.Second, func() { panic("on purpose") })
			}
			return to, err
		},
		"panics after Stop": func(timer *Timer) (to *Timeout, err error) {
			for range 3 {
				to, err = timer.AfterFunc(0, func() { time.Sleep(half - time.Second); panic("on purpose") })
			}
			time.Sleep(time.Second)
			timer.Stop()
			return to, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				option, _ := logged()
				var dropped weak.Pointer[Timer]
				func() {
					timer, err := New(option, WithTick(time.Millisecond))
					require.NoError(t, err)
					dropped = weak.Make(timer)
					_, err = play(timer)
					require.NoError(t, err)
				}()
				pass(half + time.Second)
				for range 10 {
					if runtime.GC(); dropped.Value() == nil {
						return
					}
				}
				t.Fatal("still there")
			})
		})
	}
}

// A round does not wait for a look at the calls in progress. The test runs on real time: a bubble would not go on while the look waits for
// the lock.
func TestRoundDoesNotLook(t *testing.T) {
	timer := newTimer(t)
	release, begun := make(chan struct{}), make(chan struct{})
	_, err := timer.AfterFunc(0, func() { close(begun); <-release })
	require.NoError(t, err)
	<-begun
	for !timer.worker.requestRound() { // as hold does, when the round of the task is over
		runtime.Gosched()
	}
	timer.handling.mu.Lock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		timer.warn(ending{elapsed: time.Minute, busy: true})
		timer.warn(ending{elapsed: 2 * time.Minute})
	}()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("the round looks itself")
	}
	timer.handling.mu.Unlock()
	<-ended
	go timer.worker.run()
	<-timer.calls.UntilIdle() // the look has ended; before the next one, which would be the first otherwise
	var since time.Duration
	timer.eachActivity(time.Hour, func(a activity) { since = a.since })
	require.Positive(t, since)
	require.Less(t, since, time.Hour, "the look has not found the task")
	close(release)
}

var waiting context.Context // of waitsForItself

func waitsForItself(to *Timeout) { to.WaitRunning(waiting) }
