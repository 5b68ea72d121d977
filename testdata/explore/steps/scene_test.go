package hashedwheel

import (
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/testdata/explore"
)

// Every test in this folder searches all orders of the steps of one small scene: goroutines that use
// a timer at the same time, while its worker and its runners do their part. See TestExplore.
//
// Which stripe a goroutine uses follows from the address of its stack, which is another one each time. So
// the queue has one stripe, or two, of which all use the first but those who say otherwise.

const (
	tick = time.Millisecond
	hour = time.Hour
)

// A scene is one execution of a scenario: a timer, and what happens to its timeouts.
type scene struct {
	*explore.Run
	timer *Timer
	acts  []*act
	over  time.Duration // when the race was

	// Nothing that is due waits for the next boundary once the race is over. As a rule it may, because a
	// push to a worker that is awake may come after the boundary that the deadline was counted from.
	prompt bool

	left      []*Timeout // what Stop returned
	missed    []*act     // still pending then
	uncounted int        // tasks that had been claimed then, and not been counted
	started   int        // tasks that had been started then; -1 before Stop
}

// An act is a timeout and what is known of it. Its methods are called by one racer, or by several if
// they concern different fields.
type act struct {
	s       *scene
	to      *Timeout
	err     error           // of arming it
	held    chan struct{}   // if not nil, a run ends when it is closed
	repeats bool            // every hour: a run does not end it
	armed   int             // how often it was, less what only moved it
	wins    [2]int          // for each of up to two racers, the Cancels that returned true
	from    time.Duration   // it must not run before, if that was asked for last
	until   time.Duration   // the boundary at which it is due
	fired   []time.Duration // when it ran
}

// twoStripes gives the queue two stripes.
func (s *scene) twoStripes() { s.timer.queue = queue{stripes: make([]stripe, 2)} }

// now returns the time since the timer was made, without a gate.
func (s *scene) now() time.Duration { return time.Since(s.timer.clock.start) }

// boundary returns the first tick boundary at or after a time.
func boundary(d time.Duration) time.Duration { return (d + tick - 1) / tick * tick }

// act returns an act whose timeout is yet to be armed.
func (s *scene) act() *act {
	a := &act{s: s}
	s.acts = append(s.acts, a)
	return a
}

// pending returns an act whose timeout is armed.
func (s *scene) pending(delay time.Duration) *act {
	a := s.act()
	a.arm(delay)
	return a
}

// repeating returns an act whose timeout is armed, and runs every hour from then on.
func (s *scene) repeating(delay time.Duration) *act {
	a := s.act()
	a.repeats = true
	from := s.now()
	a.to, a.err = s.timer.ScheduleWithFixedDelay(plainFunc(a.run), delay, hour)
	a.note(from, delay, a.err == nil)
	return a
}

// runs returns a repeating act that is in a run, which a racer has end. The worker is asleep.
func (s *scene) runs() *act {
	a := s.repeating(0)
	a.held = make(chan struct{})
	s.tickAway(2)
	s.Go(func() { close(a.held) })
	return a
}

func (a *act) run() {
	a.fired = append(a.fired, a.s.now())
	if a.held != nil {
		<-a.held
	}
}

// arm arms the timeout.
func (a *act) arm(delay time.Duration) {
	from := a.s.now()
	a.to, a.err = a.s.timer.AfterFunc(delay, a.run)
	a.note(from, delay, a.err == nil)
}

// armOn arms the timeout on one of two stripes.
func (a *act) armOn(stripe int, delay time.Duration) {
	timer := a.s.timer
	from := a.s.now()
	a.to = &Timeout{timer: timer, task: plainFunc(a.run)}
	*a.to.wordPtr() = pendingAt(queued|fresh, timer.clock.due(timer.clock.elapsed(), delay))
	on := &timer.queue.stripes[stripe]
	on.armed.Add(1)
	if _, ok := timer.push(&on.fresh, a.to); !ok {
		on.armed.Add(^uint64(0))
		a.err = ErrStopped
	}
	a.note(from, delay, a.err == nil)
}

// note notes an arming, or a Reset of what had ended.
func (a *act) note(from, delay time.Duration, armed bool) {
	a.from, a.until = from+delay, boundary(a.s.now()+max(delay, 1))
	if armed {
		a.armed++
	}
}

// reset resets the timeout.
func (a *act) reset(delay time.Duration) {
	from := a.s.now()
	if active, err := a.to.Reset(delay); err == nil {
		a.note(from, delay, !active)
	}
}

// cancel cancels the timeout, as one of two who may.
func (a *act) cancel(who int) {
	if a.to.Cancel() {
		a.wins[who]++
	}
}

// stop stops the timer, but for the wait for tasks that have just been started. None that was armed
// before may be pending when it has returned, and each claim is over.
func (s *scene) stop() {
	s.left = s.timer.stop()
	s.started = s.fired()
	s.uncounted -= int(s.timer.runners.tasksStarted())
	for _, a := range s.acts {
		if a.to == nil {
			continue
		}
		switch status(a.to.word.Peek()) {
		case pending:
			s.missed = append(s.missed, a)
		case expired:
			s.uncounted++
		}
	}
}

// fired returns how many tasks have been started.
func (s *scene) fired() (n int) {
	for _, a := range s.acts {
		n += len(a.fired)
	}
	return n
}

// awaken has the worker, which was asleep or absent, stay awake until the next boundary, and then
// find something on the queue.
func (s *scene) awaken() {
	s.pending(hour)
	synctest.Wait()
	s.pending(hour)
}

// useExecutor has tasks run on a goroutine each.
func (s *scene) useExecutor() {
	var c config
	WithExecutor(func(run func()) error {
		go run()
		return nil
	})(&c)
	s.timer.runners.dispatch = c.dispatcher(&s.timer.runners)
}

// tickAway lets the time pass that the timer has had since New, up to half a tick after the n'th
// boundary.
func (s *scene) tickAway(n int) {
	time.Sleep(time.Duration(n)*tick + tick/2 - s.now())
	synctest.Wait()
}

// race runs the racers in one of the orders, then lets time pass, and checks what must be true
// whatever the order was: each timeout that is due has ended once for each time it was armed, in
// time, the counts are right, nothing is left on the queue, and the worker is where it should be.
func (s *scene) race(lead time.Duration) {
	s.Race(lead)
	s.check()
}

// check is race without the race.
func (s *scene) check() {
	s.over = s.now()
	pass(10 * tick)
	require.Empty(s, s.missed, "pending when Stop had returned")
	require.LessOrEqual(s, s.uncounted, 0, "tasks that were started, and not counted when Stop had returned")
	if s.started >= 0 {
		require.Equal(s, s.started, s.fired(), "tasks that were started after Stop had returned")
	}
	waiting := 0
	for i, a := range s.acts {
		if !a.check(i) {
			waiting++
		}
	}
	timer := s.timer
	pass(time.Second)
	st := timer.Stats()
	require.Equal(s, waiting, st.Pending, "pending")
	require.Equal(s, st.Accepted, st.Expired+st.Canceled+st.Returned+uint64(st.Pending), "%+v", st)
	require.Zero(s, st.Panics)
	require.Zero(s, st.Queued, "left on the queue")
	switch presence := timer.worker.presence.Load(); {
	case timer.IsStopped():
		require.EqualValues(s, halted, presence)
	case waiting == 0:
		require.EqualValues(s, absent, presence, "the worker is still there")
	default:
		require.EqualValues(s, asleep, presence, "the worker does not sleep")
	}
	if !timer.IsStopped() {
		s.left = timer.stop()
		require.Len(s, s.left, waiting)
	}
	require.Zero(s, timer.Pending())
	require.Empty(s, timer.runners.live)
}

// check checks one act, and reports whether its timeout has ended.
func (a *act) check(i int) (ended bool) {
	s := a.s
	returned := 0
	for _, to := range s.left {
		if to == a.to {
			returned++
		}
	}
	wins := a.wins[0] + a.wins[1]
	ends := wins + returned
	if !a.repeats {
		ends += len(a.fired)
	}
	if a.err != nil {
		require.ErrorIs(s, a.err, ErrStopped)
		require.Zero(s, ends, "act %d was refused", i)
		return true
	}
	if last := len(a.fired) - 1; last >= 0 && returned == 0 {
		limit := max(a.until, s.over)
		if !s.prompt {
			limit = max(limit, boundary(s.over+1))
		}
		require.LessOrEqual(s, a.fired[last], limit, "act %d ran late", i)
		if wins == 0 {
			require.GreaterOrEqual(s, a.fired[last], a.from, "act %d ran early", i)
		}
	}
	if ends == a.armed-1 && (a.until > s.now() || a.repeats && len(a.fired) > 0) {
		require.EqualValues(s, pending, status(a.to.word.Load()), "act %d", i)
		return false
	}
	require.Equal(s, a.armed, ends, "act %d: it ran at %v, was canceled %d times, returned %d times",
		i, a.fired, wins, returned)
	require.NotEqualValues(s, pending, status(a.to.word.Load()), "act %d", i)
	return true
}

// pass lets virtual time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
