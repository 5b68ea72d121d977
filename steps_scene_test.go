package hashedwheel

import (
	"slices"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/explore"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

// Each scenario in the files steps_*_test.go searches the orders of the steps of one small scene, up to its bounds. In a scene,
// goroutines use a timer at the same time, while its worker and its runners do their part. TestExplore runs the scenarios, in a
// copy of the package that has no other tests.
//
// The address of its stack decides which stripe a goroutine uses, and differs between executions. So the
// queue has only one stripe here, or two stripes for those scenes that choose the stripe themselves.

const (
	tick = time.Millisecond
	hour = time.Hour
)

var scenarios = make(explore.Scenarios)

// A scene is one execution of a scenario: a timer, and what happens to its timeouts.
type scene struct {
	*explore.Run
	timer *Timer
	acts  []*act
	over  time.Duration // when the race ended

	// If prompt is set, a timeout that is due when the race ends must not wait for the next boundary.
	// Otherwise it may: a push to a worker that waits for the next boundary may come after the boundary at which the
	// timeout is due.
	prompt bool

	left   []*Timeout // what Stop returned
	missed []*act     // still pending when Stop returned
	late   []*act     // they had not been claimed when Stop returned
}

// An act is a timeout, with what the scene knows about it. Its fields need no lock, because one
// goroutine runs at a time.
type act struct {
	s       *scene
	to      *Timeout
	err     error           // of the arming
	held    chan struct{}   // if not nil, a run does not end before held is closed
	repeats bool            // it repeats every hour, so a run does not end it
	armed   int             // how often it was armed; a Reset that only moved it does not count
	wins    int             // how many Cancels returned true
	from    time.Duration   // the last run must not start before this time
	until   time.Duration   // the boundary at which it is due
	fired   []time.Duration // when it ran
	final   int             // how often it had run when Stop returned
}

// twoStripes gives the queue two stripes.
func (s *scene) twoStripes() { s.timer.makeStripes(2) }

// makeStripes makes a new queue, of which goroutines use only the first stripe.
func (t *Timer) makeStripes(n int) {
	t.queue = queue{}
	t.queue.init(tick, n)
	t.queue.seats = nil
}

// now returns the time since the timer was made, without a gate.
func (s *scene) now() time.Duration { return time.Since(s.timer.clock.Start) }

// boundary returns the first tick boundary at or after a time.
func boundary(d time.Duration) time.Duration { return (d + tick - 1) / tick * tick }

// act returns an act whose timeout has not been armed yet.
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

// repeating returns an act whose timeout is armed, and repeats an hour after each run.
func (s *scene) repeating(delay time.Duration) *act {
	a := s.act()
	a.repeats = true
	from := s.now()
	a.to, a.err = s.timer.ScheduleWithFixedDelay(plainFunc(a.run), delay, hour)
	a.note(from, delay, a.err == nil)
	return a
}

// runs returns a repeating act in the middle of a run. A racer lets this run end. The worker rests.
func (s *scene) runs() *act {
	a := s.repeating(0)
	a.held = make(chan struct{})
	s.tickAway(2)
	s.Go(func() { close(a.held) })
	return a
}

// holding returns an act that is due at the next boundary. Others wait behind it until held is closed.
func (s *scene) holding() *act {
	s.timer.tasks.Limit = 1
	b := s.act()
	b.held = make(chan struct{})
	b.arm(0)
	return b
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

// armsOn adds a racer that arms a timeout, which is near, on one of two stripes.
func (s *scene) armsOn(stripe int, delay time.Duration) {
	a := s.act()
	s.Go(func() { a.armOn(stripe, delay) })
}

func (a *act) armOn(stripe int, delay time.Duration) {
	timer := a.s.timer
	from := a.s.now()
	a.to = &Timeout{timer: timer, task: plainFunc(a.run)}
	due := timer.clock.DueIn(delay)
	*a.to.wordPtr() = pendingAt(young, due)
	if _, _, ok := timer.queue.stripes[stripe].nursery.put(a.to, timer.queue.nearAt(due), false); ok {
		timer.worker.wakeFor(due)
	} else {
		a.err = ErrStopped
	}
	a.note(from, delay, a.err == nil)
}

// note notes when the timeout is due, and counts the arming if armed is true.
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

// resetTo is reset for a tick, by a caller who has read the clock before the race.
func (a *act) resetTo(due uint64) {
	from := a.s.now()
	if active, err := a.to.reset(due, false); err == nil {
		a.note(from, 0, !active)
	}
}

func (a *act) cancel() {
	if a.to.Cancel() {
		a.wins++
	}
}

// word reads the word of the timeout without a gate.
func (a *act) word() uint64 { return *a.to.wordPtr() }

// cancels adds a racer that cancels the timeout.
func (a *act) cancels() *act {
	a.s.Go(a.cancel)
	return a
}

// resets adds a racer that resets the timeout.
func (a *act) resets(delay time.Duration) *act {
	a.s.Go(func() { a.reset(delay) })
	return a
}

// arms adds a racer that arms a timeout.
func (s *scene) arms(delay time.Duration) {
	a := s.act()
	s.Go(func() { a.arm(delay) })
}

// stops adds a racer that stops the timer.
func (s *scene) stops() { s.Go(s.stop) }

// stop stops the timer. When it returns, no timeout that was armed before may be pending, and none may be claimed any
// more.
func (s *scene) stop() {
	s.left = s.timer.Stop()
	for _, a := range s.acts {
		if a.to == nil {
			continue
		}
		word := a.word()
		switch status(word) {
		case pending:
			s.missed = append(s.missed, a)
		case expired:
		default:
			if word&atWork == 0 {
				a.final = len(a.fired)
				s.late = append(s.late, a)
			}
		}
	}
}

// awaken starts a round. The next one is at the next boundary, and finds something on the queue.
func (s *scene) awaken() {
	s.pending(hour)
	synctest.Wait()
	s.pending(hour)
}

// useExecutor makes the timer run each task on a goroutine of its own, through an executor.
func (s *scene) useExecutor() {
	s.timer.makePools(tick, 0, func(run func()) error {
		go run()
		return nil
	})
}

// sweepAt sets the time of the next sweep. Called between two rounds.
func (s *scene) sweepAt(at time.Duration) {
	w := &s.timer.worker
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sweepAt = at
}

// place puts what is in nurseries into the wheel. Called between two rounds.
func (s *scene) place() {
	w := &s.timer.worker
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wheel != nil {
		w.giveBack()
		w.handOver()
	}
}

// sweeps makes the next round take all timeouts that are in slots now, as if a sweep had met them before. Others are new.
func (s *scene) sweeps() {
	s.sweepAt(0)
	for i := range s.timer.queue.stripes {
		if t := s.timer.queue.stripes[i].nursery.table.Load(); t != nil {
			for i := range t.slots {
				if t.slots[i].Load() != nil {
					t.blocks[i/blockSize].met.Or(1 << (i % blockSize))
				}
			}
		}
	}
}

// tickAway lets time pass until half a tick after the n'th boundary since New. After the first boundary, nothing is left in
// nurseries, as if sweeps had met it.
func (s *scene) tickAway(n int) {
	time.Sleep(time.Duration(n)*tick + tick/2 - s.now())
	synctest.Wait()
	if n > 0 {
		s.place()
	}
}

// race runs the racers in one of the orders, then lets time pass, and checks what must be true for every
// order. Each timeout that is due has ended in time, once for each time it was armed. The counts are right,
// nothing is left on the queue, and the worker rests, or is halted. If nothing is pending, it keeps nothing.
func (s *scene) race(lead time.Duration) {
	s.Race(lead)
	s.check()
}

// check lets time pass, and makes the checks of race.
func (s *scene) check() {
	s.over = s.now()
	s.timer.wall.Step = 0 // so that the worker can rest
	s.checkRings()
	testkit.Pass(10 * tick)
	require.Empty(s, s.missed, "timeouts still pending when Stop had returned")
	for _, a := range s.late {
		if a.armed > 1 {
			continue // it may have been claimed before it was armed again: see act.check
		}
		require.Len(s, a.fired, a.final, "the task of a timeout started that was claimed after Stop had returned")
	}
	for _, to := range s.left {
		accepted := slices.ContainsFunc(s.acts, func(a *act) bool { return a.to == to })
		require.True(s, accepted, "Stop returned a timeout that was refused")
	}
	waiting := 0
	for i, a := range s.acts {
		if !a.check(i) {
			waiting++
		}
	}
	timer := s.timer
	testkit.Pass(4 * sweepTime)
	st := timer.Stats()
	require.Equal(s, waiting, st.Pending, "pending timeouts")
	require.Equal(s, st.Accepted, st.Expired+st.Canceled+st.Returned+uint64(st.Pending), "%+v", st)
	require.Zero(s, st.Panics)
	require.Zero(s, st.Queued, "timeouts left on the queue")
	w := &timer.worker
	switch state := w.state.Load(); {
	case timer.IsStopped():
		require.EqualValues(s, halted, state)
	default:
		require.EqualValues(s, resting, state, "the worker does not rest")
		require.Equal(s, uint64(ticks.Never), timer.queue.needs(), "the worker rests although something is on the queue")
		if waiting == 0 {
			require.Nil(s, w.wheel, "the worker keeps its memory")
			require.Nil(s, w.alarm, "the worker keeps its alarm")
		}
	}
	if !timer.IsStopped() {
		s.left = timer.Stop()
		require.Len(s, s.left, waiting)
	}
	for _, a := range s.acts {
		if a.to != nil && a.to.timer != nil {
			_, err := a.to.Reset(hour)
			require.ErrorIs(s, err, ErrStopped)
		}
	}
	require.Zero(s, timer.Pending())
	tasks, goroutines := timer.tasks.Running()
	require.Zero(s, tasks+goroutines)
}

// check checks act number i, and reports whether its timeout has ended.
func (a *act) check(i int) (ended bool) {
	s := a.s
	returned := 0
	for _, to := range s.left {
		if to == a.to {
			returned++
		}
	}
	wins := a.wins
	if returned > 0 && !a.to.Cancel() {
		wins-- // a Cancel was for what Stop had returned
	}
	ends := wins + returned
	if !a.repeats {
		ends += len(a.fired)
	}
	if a.err != nil {
		require.ErrorIs(s, a.err, ErrStopped)
		require.Zero(s, ends, "act %d was refused, and yet ended", i)
		return true
	}
	if last := len(a.fired) - 1; last >= 0 && returned == 0 {
		limit := max(a.until, s.over)
		if !s.prompt {
			limit = max(limit, boundary(s.over+1))
		}
		require.LessOrEqual(s, a.fired[last], limit, "act %d ran late", i)
		if wins == 0 && (a.repeats || ends == a.armed) { // otherwise it was armed again after that run
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
