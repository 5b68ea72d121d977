package hashedwheel

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

// A Schedule says when a repeating task runs. A parsed expression of robfig/cron is a Schedule.
type Schedule interface {
	// Next returns the time of the run after prev, or the zero Time if there is none. For the first run,
	// prev is the present time. After that it is the time that Next returned before. But if that run was
	// moved, by a Reset or because its time had already passed, prev is the tick boundary that it was moved
	// to. So prev is when a run was due, not when it ended. For a pause that begins at the end of the run,
	// such as the backoff of a retry, return time.Now().Add(pause).
	//
	// Timer.Schedule calls Next for the first run. For each further run, the goroutine that has run the
	// task calls Next when the task has returned, unless the timeout was canceled or reset meanwhile. A run
	// and its Next happen before the next run. If Next panics after a run, the panic is reported like one
	// of the task, and the schedule ends. A runtime.Goexit ends the schedule too.
	Next(prev time.Time) time.Time
}

// Every returns a schedule with a fixed interval. Use it with Jitter, or where missed runs are to be
// dropped. (ScheduleAtFixedRate makes up for missed runs.) The interval must be positive, otherwise
// Timer.Schedule returns an error.
func Every(interval time.Duration) Schedule { return every(interval) }

type every time.Duration

func (e every) Next(prev time.Time) time.Time { return prev.Add(time.Duration(e)) }

// Jitter returns a schedule that delays each run of s at random, so that a thousand tasks do not all run at
// once. The delay is a random fraction of the time since the run before, evenly distributed between zero and
// the given fraction: 0.1 means up to a tenth. No run is early. With Timer.Schedule the delays do not add up,
// because each is counted from the time that s returns. The fraction must be 0 to 1, otherwise Timer.Schedule
// returns an error.
func Jitter(s Schedule, fraction float64) Schedule { return &jittered{s, fraction} }

type jittered struct {
	schedule Schedule
	fraction float64
}

// Next is for callers that use the schedule without a Timer.
func (j *jittered) Next(prev time.Time) time.Time {
	return addJitter(j.schedule.Next(prev), prev, j.fraction)
}

// exact returns the schedule without jitter, because times counted from a jittered time would drift.
func (j *jittered) exact() Schedule {
	if inner, ok := j.schedule.(*jittered); ok {
		return inner.exact()
	}
	return j.schedule
}

// apply returns next plus the jitter. Next is the time after prev by the exact schedule. J may be nil: then
// there is no jitter.
func (j *jittered) apply(next, prev time.Time) time.Time {
	if j == nil {
		return next
	}
	if inner, ok := j.schedule.(*jittered); ok {
		next = inner.apply(next, prev)
	}
	return addJitter(next, prev, j.fraction)
}

// addJitter returns next plus a random delay, which is at most fraction times the time from prev to next.
func addJitter(next, prev time.Time, fraction float64) time.Time {
	gap := next.Sub(prev)
	if next.IsZero() || gap <= 0 {
		return next
	}
	return next.Add(time.Duration(fraction * rand.Float64() * float64(gap)))
}

// checkSchedule returns an error if the schedule is nil, or if a parameter of Every or Jitter is wrong.
func checkSchedule(s Schedule) error {
	switch s := s.(type) {
	case nil:
		return errors.New("hashedwheel: Schedule: nil schedule")
	case every:
		if s <= 0 {
			return fmt.Errorf("hashedwheel: Schedule: interval %v of Every must be positive", time.Duration(s))
		}
	case *jittered:
		if !(s.fraction >= 0 && s.fraction <= 1) { // or NaN
			return fmt.Errorf("hashedwheel: Schedule: Jitter with fraction %v: it must be 0 to 1", s.fraction)
		}
		return checkSchedule(s.schedule)
	}
	return nil
}

// ScheduleAtFixedRate arms a timeout whose task runs after initialDelay, and then once each period. Run n,
// counted from 0, is due at initialDelay + n*period from now. There is no drift, however short the tick and
// the period are. A run does not start before the previous one has returned. Runs that were missed meanwhile
// follow at once, one after another.
//
// One handle stands for all runs. Cancel ends them, also from inside the task. Reset moves the next run. A
// panic in the task does not end them. Until they end, the timeout is neither expired nor canceled, and
// takes one slot of WithMaxPending. A run allocates nothing, unless an executor runs it, or the
// timer's goroutine has ended meanwhile.
//
// The error is ErrNilTask, ErrStopped or ErrTooManyPending, or says that the period is not positive. An
// initial delay of zero or less means the next tick boundary.
func (t *Timer) ScheduleAtFixedRate(task Task, initialDelay, period time.Duration) (*Timeout, error) {
	return t.repeat(t.atFixedRate(task, initialDelay, period))
}

// ScheduleWithFixedDelay is like ScheduleAtFixedRate, except that each run is due when delay has passed
// since the end of the run before. So no run is ever missed.
func (t *Timer) ScheduleWithFixedDelay(task Task, initialDelay, delay time.Duration) (*Timeout, error) {
	return t.repeat(t.withFixedDelay(task, initialDelay, delay))
}

// Schedule is like ScheduleAtFixedRate, except that the schedule says when the runs are due. A time may have
// passed already, because the task took long or for any other reason. Then the run is due at the next tick
// boundary, and the schedule continues from there.
//
// When the schedule returns the zero Time, the timeout expires. If the first time is zero, or the schedule
// is nil, Schedule returns an error, because the task would never run.
func (t *Timer) Schedule(task Task, schedule Schedule) (*Timeout, error) {
	return t.repeat(t.bySchedule(task, schedule))
}

// repeat arms a new repeating timeout, if there was no error.
func (t *Timer) repeat(r *repeating, err error) (*Timeout, error) {
	if err != nil {
		return nil, err
	}
	return t.newTimeout(r, hooked, r.tick)
}

// newRepeating returns a repeating for a task. The caller sets the schedule.
func newRepeating(task Task) (*repeating, error) {
	task, _ = prepareTask(task)
	if task == nil {
		return nil, ErrNilTask
	}
	return &repeating{wrap: wrap{task}}, nil
}

func (t *Timer) atFixedRate(task Task, initialDelay, period time.Duration) (*repeating, error) {
	r, err := newRepeating(task)
	if err != nil {
		return nil, err
	}
	if period <= 0 {
		return nil, fmt.Errorf("hashedwheel: ScheduleAtFixedRate: period %v must be positive", period)
	}
	elapsed := t.clock.Elapsed()
	r.period = period
	r.tick = t.clock.Due(elapsed, initialDelay)
	r.due = elapsed + max(initialDelay, 0)
	return r, nil
}

func (t *Timer) withFixedDelay(task Task, initialDelay, delay time.Duration) (*repeating, error) {
	r, err := newRepeating(task)
	if err != nil {
		return nil, err
	}
	if delay <= 0 {
		return nil, fmt.Errorf("hashedwheel: ScheduleWithFixedDelay: delay %v must be positive", delay)
	}
	r.period, r.fromEnd = delay, true
	r.tick = t.clock.Due(t.clock.Elapsed(), initialDelay)
	return r, nil
}

func (t *Timer) bySchedule(task Task, schedule Schedule) (*repeating, error) {
	r, err := newRepeating(task)
	if err != nil {
		return nil, err
	}
	if err := checkSchedule(schedule); err != nil {
		return nil, err
	}
	r.schedule, r.at = schedule, time.Now()
	if j, ok := schedule.(*jittered); ok {
		r.schedule, r.jitter = j.exact(), j
	}
	if !r.next(&t.clock) {
		return nil, fmt.Errorf("hashedwheel: Schedule: %T returned a zero first time, so the task would never run", r.schedule)
	}
	return r, nil
}

// A repeating is the hook of a timeout that runs more than once. It holds the user's task, and says when
// the next run is due.
//
// After each run, the runner arms the timeout for the next one. While the timeout is at work, the fields
// belong to its runner. They pass to the next runner together with the word.
type repeating struct {
	wrap

	// Immutable.
	schedule Schedule      // nil: by period
	jitter   *jittered     // added to the times of the schedule; nil for none
	period   time.Duration // from one run to the next
	fromEnd  bool          // the period counts from the end of a run

	tick uint64        // the tick for which it was armed last
	due  time.Duration // at a fixed rate: the exact time of that run, counted from New
	at   time.Time     // by a schedule: the time that it returned for that run, without jitter
}

// claim leaves the timeout pending, and puts it at work. If the timeout was reset since it was armed, the
// further runs count from the tick that it was moved to.
func (r *repeating) claim(to *Timeout, word uint64) (claimed uint64) {
	claimed = word&^moved | atWork
	if !to.word.CompareAndSwap(word, claimed) { // the fields are the runner's from here
		return 0
	}
	if word&moved != 0 {
		c := &to.timer.clock
		r.due = c.Boundary(tickOf(word))
		r.at = c.TimeOf(tickOf(word), r.at.Location())
	}
	return claimed
}

// ran arms the timeout for its next run, unless it has been canceled, or its schedule has ended.
func (r *repeating) ran(to *Timeout) (again bool) {
	more := false
	defer func() {
		for ok := false; !ok; {
			again, ok = r.rearm(to, more)
		}
	}()
	if word := to.word.Load(); word&moved != 0 || status(word) != pending {
		more = true // if it is not canceled, it has been reset
		return
	}
	more = r.ask(to)
	return
}

// ask is next, except that it recovers a panic of the schedule: then there are no more runs.
func (r *repeating) ask(to *Timeout) (more bool) {
	defer func() {
		if value := recover(); value != nil {
			to.timer.reportPanic(to, value, debug.Stack())
		}
	}()
	return r.next(&to.timer.clock)
}

// next computes when the next run is due, and reports whether there is one.
func (r *repeating) next(c *ticks.Clock) (more bool) {
	switch {
	case r.schedule != nil:
		return r.nextScheduled(c)
	case r.fromEnd:
		r.tick = c.Due(c.Elapsed(), r.period)
	default:
		r.due += r.period
		r.tick = c.At(r.due)
	}
	return true
}

// nextScheduled asks the schedule for the time after the one that it returned last, not after the present
// time. A run may be late. By the wall clock it may even be early, if that clock has been set back
// meanwhile. The schedule must not repeat or skip a run in either case.
func (r *repeating) nextScheduled(c *ticks.Clock) (more bool) {
	next := r.schedule.Next(r.at)
	if next.IsZero() {
		return false
	}
	delay := time.Until(r.jitter.apply(next, r.at))
	r.tick = c.Due(c.Elapsed(), delay)
	r.at = next
	if delay <= 0 {
		// The schedule continues from this tick. Otherwise the task would run at each tick after a
		// long stall, until it had made up for all the runs it missed.
		r.at = c.TimeOf(r.tick, next.Location())
	}
	return true
}

// rearm arms a timeout at work for its next run, or ends it, as its word and more say. Again reports whether that run
// is already due. Ok reports whether the word was still the same: if not, the caller has to try again.
func (r *repeating) rearm(to *Timeout, more bool) (again, ok bool) {
	t := to.timer
	s := t.queue.stripe()
	word := to.word.Load()
	after := word &^ (atWork | moved)
	if status(word) != pending {
		return false, to.word.CompareAndSwap(word, after)
	}
	tick := r.tick
	switch {
	case word&moved != 0:
		tick = tickOf(word)
	case !more:
		if !to.word.CompareAndSwap(word, withStatus(after, expired)) {
			return false, false
		}
		s.rearmed.Add(^uint64(0)) // because there is no next run
		t.limit.free()
		to.hook().disarmed(to, false) // the outermost hook, which may be wrapped around this one
		return false, true
	}
	if !t.queue.enter(s) {
		s.leave()
		<-t.allTaken // Stop finds the timeout with its runner
		return false, false
	}
	defer s.leave()
	next := pendingAt(after, tick) | word&moved
	if word&queued == 0 && tick <= t.clock.Now() {
		return true, to.word.CompareAndSwap(word, next)
	}
	ok = to.word.CompareAndSwap(word, next|queued)
	if ok && word&queued == 0 {
		t.pushAgain(s, to)
	}
	return false, ok
}
