package hashedwheel

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

// ScheduleAtFixedRate arms a timeout whose task runs after initialDelay, and then once each period. Run n, from 0, is
// due at initialDelay + n*period from now, without drift. Runs never overlap. Missed runs follow at once, one after
// another. Cancel ends the runs, Reset moves the next one, and a panic does not end them. Until the runs end, the
// timeout is neither expired nor canceled.
//
// The error is ErrNilTask, ErrStopped or ErrTooManyPending, or says that the period is not positive.
func (t *Timer) ScheduleAtFixedRate(task Task, initialDelay, period time.Duration) (*Timeout, error) {
	return t.byPeriod("ScheduleAtFixedRate: period", task, initialDelay, period, false)
}

// ScheduleWithFixedDelay is like ScheduleAtFixedRate, except that each run is due when delay has passed since the end of the
// previous run.
func (t *Timer) ScheduleWithFixedDelay(task Task, initialDelay, delay time.Duration) (*Timeout, error) {
	return t.byPeriod("ScheduleWithFixedDelay: delay", task, initialDelay, delay, true)
}

// A Schedule says when a repeating task runs. A parsed expression of robfig/cron is a Schedule.
type Schedule interface {
	// Next returns the time of the next run, or the zero Time if there is none. In the first call, prev is the present
	// time. Later it is the time at which the last run was due. For a pause after a run, such as a backoff, return
	// time.Now().Add(pause). Its monotonic reading makes it a pause.
	//
	// In the first call, the location of prev is time.Local. Later it is that of the time that Next returned last.
	//
	// If runs were missed, or the wall clock is set back, Next is called again, with the present time. Next is not
	// called after a run during which the timeout was canceled or reset. A panic in Next ends the schedule.
	Next(prev time.Time) time.Time
}

// Schedule is like ScheduleAtFixedRate, except that the schedule says when the runs are due. When Next returns the zero
// Time, the timeout expires. If the first time is zero, or the schedule is nil or invalid, Schedule returns an error.
//
// If the tick boundary of a run has passed, the run starts at once, and Next then gets the last boundary as prev. The
// first run is an exception: it waits for the next boundary. At most one run starts in each tick.
//
// Runs follow the wall clock, except for Every and pauses. When the clock was set, or the machine has slept, the next
// run is late by at most a minute and a tick, and never early. One run makes up for all runs that were missed
// meanwhile. For this the timer wakes up once a minute while such a run is pending.
func (t *Timer) Schedule(task Task, schedule Schedule) (*Timeout, error) {
	r, err := bySchedule(task, schedule)
	if err != nil {
		return nil, err
	}
	if err := r.first(t); err != nil {
		return nil, err
	}
	return t.newTimeout(r, hooked, r.tick)
}

// byPeriod arms a timeout that runs once each period. Errors call the period what.
func (t *Timer) byPeriod(what string, task Task, initialDelay, period time.Duration, fromEnd bool) (*Timeout, error) {
	task, _ = prepareTask(task)
	switch {
	case task == nil:
		return nil, ErrNilTask
	case period <= 0:
		return nil, fmt.Errorf("hashedwheel: %s %v must be positive", what, period)
	}
	elapsed := t.clock.Elapsed()
	r := &repeating{wrap: wrap{task}, period: period, fromEnd: fromEnd, exact: elapsed + max(initialDelay, 0)}
	return t.newTimeout(r, hooked, t.clock.Due(elapsed, initialDelay))
}

// bySchedule returns the hook of a timeout with a schedule. The caller calls its method first next.
func bySchedule(task Task, schedule Schedule) (*repeating, error) {
	task, _ = prepareTask(task)
	if task == nil {
		return nil, ErrNilTask
	}
	if err := checkSchedule(schedule); err != nil {
		return nil, err
	}
	r := &repeating{wrap: wrap{task}, schedule: schedule}
	if j, ok := schedule.(*jittered); ok {
		r.schedule, r.jitter = j.exact, j.jitter
	}
	if interval, ok := r.schedule.(every); ok {
		r.schedule, r.period, r.skips = nil, time.Duration(interval), true
	} else {
		r.run = new(wallRun)
	}
	return r, nil
}

// first sets the tick of the first run by a schedule. If the timer is stopped or full, it does not call Next.
func (r *repeating) first(t *Timer) error {
	elapsed := t.clock.Elapsed()
	if t.queue.shut.Load() || t.limit.isFull() {
		return t.refuse()
	}
	if r.run == nil {
		r.exact = elapsed
	} else {
		r.at = t.wall.At(time.Now())
	}
	if !r.next(t) {
		return fmt.Errorf("hashedwheel: Schedule: %T returned a zero first time, so the task would never run", r.schedule)
	}
	return nil
}

// A repeating is the hook of a timeout that runs more than once. Its fields belong to the goroutine that makes the timeout, and
// then to the runner while the timeout is at work. They pass from one to the next with the word.
type repeating struct {
	wrap

	// Immutable.
	schedule Schedule      // nil: by period, also for Every
	jitter   jitter        // of the schedule, or of the period
	period   time.Duration // from one run to the next
	fromEnd  bool          // the period counts from the end of a run
	skips    bool          // Every: one run makes up for all missed runs
	run      *wallRun      // by a schedule; nil by period

	tick  uint64        // the tick for which to arm the timeout: see next
	begun uint64        // by a schedule or Every: the tick in which the timeout was claimed last, or 0
	exact time.Duration // by period, unless fromEnd: the exact time of the next run without jitter, counted from New
	delay time.Duration // by period: the jitter of that run
	at    time.Time     // by a schedule: the time that it returned for that run, without jitter
}

// putOff does nothing to a run that a Reset has moved.
func (r *repeating) putOff(to *Timeout, word uint64) bool {
	return r.run != nil && word&moved == 0 && r.run.putOff(to, word)
}

// dueTick is the tick of the run by the wall clock, even if the timeout is armed for an earlier step.
func (r *repeating) dueTick(to *Timeout, word uint64) uint64 {
	if r.run == nil || word&(moved|atWork) != 0 || status(word) == expired || to.timer.clock.Foreign() {
		return tickOf(word)
	}
	return max(tickOf(word), r.run.dueTick(to.timer))
}

// claim puts the timeout at work. After a Reset, further runs count from its tick. If the wall clock was set back, claim
// asks the schedule again instead.
func (r *repeating) claim(to *Timeout, word uint64) (claimed uint64, ok bool) {
	if r.putOff(to, word) {
		return 0, false // Timeout.claim reads the word again, and finds a later tick
	}
	claimed = word&^moved | atWork
	if !to.word.CompareAndSwap(word, claimed) { // after this, the fields of r belong to the caller
		return 0, false
	}
	c := &to.timer.clock
	if r.run == nil {
		if word&moved != 0 {
			r.exact, r.delay = c.Boundary(tickOf(word)), 0
		}
		if r.skips {
			r.begun = c.Now()
			late := max(c.Boundary(r.begun)-r.exact-r.delay, 0)
			r.exact += late / r.period * r.period // this run makes up for all that came due before its start
		}
		return claimed, true
	}
	if word&moved != 0 {
		r.at = r.timeOf(to.timer, tickOf(word))
	}
	r.begun = c.Now()
	r.run.missing = time.Time{}
	switch wall, late, asked := r.run.claimed(to.timer); {
	case word&moved != 0:
	case late < 0:
		r.at = r.inZone(asked)
		r.goOn(to, false)
		return 0, true
	case late > c.Tick+tolerance:
		r.run.missing = r.inZone(wall)
	}
	return claimed, true
}

// timeOf returns the time of a tick, for Next. The time has no monotonic reading, so its sum with a duration does not count
// as a pause.
func (r *repeating) timeOf(t *Timer, tick uint64) time.Time {
	return r.inZone(t.wall.At(t.clock.TimeOf(tick)))
}

// inZone returns a time in the location of the last time of the schedule.
func (r *repeating) inZone(at time.Time) time.Time {
	if loc := r.at.Location(); loc != at.Location() {
		return at.In(loc)
	}
	return at
}

func (r *repeating) ran(to *Timeout) (again bool) { return r.goOn(to, true) }

// goOn arms the timeout at work for its next run, or ends it. If over is true, a run is over. Otherwise goOn only asks the
// schedule and counts no run. If the schedule has ended, the timeout counts as expired in both cases.
func (r *repeating) goOn(to *Timeout, over bool) (again bool) {
	more := false
	defer func() { // also if Next ends its goroutine
		for ok := false; !ok; {
			again, ok = r.rearm(to, more, over)
		}
	}()
	defer to.timer.catch(to, "Schedule.Next") // a panic of the schedule ends the runs
	if word := to.word.Load(); word&moved == 0 && status(word) == pending {
		if r.run != nil {
			r.asking(to.timer)
			defer r.answered(to.timer)
		}
		more = r.next(to.timer)
	}
	return again
}

// next sets the tick of the next run, if there is one.
func (r *repeating) next(t *Timer) (more bool) {
	c := &t.clock
	switch {
	case r.schedule != nil:
		next, due := r.ask()
		if !next.IsZero() && r.run.missed(due) {
			r.at = r.run.missing
			next, due = r.ask()
		}
		if next.IsZero() {
			return false
		}
		r.plan(t, next, due)
	case r.fromEnd:
		r.tick = c.Due(c.Elapsed(), r.period)
	default:
		r.exact += r.period
		r.delay = r.jitter.of(r.period)
		r.tick = c.At(r.exact + r.delay) // Never if a sum has overflowed: see jitter.of
		if r.skips {
			r.tick = max(r.tick, r.notBefore(c))
		}
	}
	return true
}

// notBefore returns the tick for an overdue run: the current tick, so that the run follows at once. It returns the next tick
// if a run has begun in the current one, or none has begun at all. A fixed rate has no such limit.
func (r *repeating) notBefore(c *ticks.Clock) uint64 {
	now := c.Now()
	if r.begun == now || r.begun == 0 {
		return now + 1
	}
	return now
}

// asking notes that a call of Next begins on a runner.
func (r *repeating) asking(t *Timer) {
	r.run.asked.Store(max(1, int64(t.clock.Elapsed())))
	t.briefs.begin()
}

// answered notes that the call has returned.
func (r *repeating) answered(t *Timer) {
	r.run.asked.Store(0)
	t.briefs.end()
}

// ask returns the next time of the schedule, and the same time with jitter.
func (r *repeating) ask() (next, due time.Time) {
	next = r.schedule.Next(r.at)
	return next, r.jitter.add(next, r.at)
}

// asks returns the schedule, and when the call of its Next began that is in progress. It returns nil if none is. Called by any
// goroutine.
func (r *repeating) asks() (schedule any, since time.Duration) {
	if r.run == nil {
		return nil, 0
	}
	if since = time.Duration(r.run.asked.Load()); since == 0 {
		return nil, 0
	}
	return r.schedule, since
}

// plan sets the tick of the run for which the schedule has returned the time next. The time due is later by the jitter. The
// schedule continues from next, not from the start of the run, which may be late.
func (r *repeating) plan(t *Timer, next, due time.Time) {
	tick, passed := r.run.plan(t, due, r.at)
	r.tick, r.at = tick, next.Round(0) // see timeOf
	if passed {
		// Continue from this tick. Otherwise the task would make up for all missed runs, one at each tick.
		r.tick = max(tick, r.notBefore(&t.clock))
		r.at = r.timeOf(t, r.tick)
	}
}

// rearm arms a timeout at work again, or ends it. If ok is false, the word has changed, and the caller must call rearm again. If
// ok and again are true, the timeout is due, and its runner keeps it. That happens only if over is true.
func (r *repeating) rearm(to *Timeout, more, over bool) (again, ok bool) {
	t := to.timer
	s := t.queue.stripe()
	word := to.word.Load()
	after := word &^ (atWork | moved)
	if status(word) != pending {
		if ok = to.word.CompareAndSwap(word, after); ok && over {
			s.runOver(true) // no next run: Cancel or Stop has ended the timeout
		}
		return false, ok
	}
	tick := r.tick
	switch {
	case word&moved != 0:
		tick = tickOf(word)
	case !more:
		if !to.word.CompareAndSwap(word, withStatus(after, expired)) {
			return false, false
		}
		s.runOver(false)
		t.limit.release()
		to.hook().disarmed(to, false) // the outermost hook, which may be wrapped around this one
		return false, true
	}
	next := pendingAt(after, tick) | word&moved
	if over && word&queued == 0 && t.isPast(tick) {
		// No gate is needed, because the timeout stays with the runner, and Stop finds it there.
		if ok = to.word.CompareAndSwap(word, next); ok {
			s.runOver(true)
		}
		return true, ok
	}
	if !t.enterOrWait(s) {
		return false, false // Stop has ended it, which the next call finds
	}
	defer s.leave()
	if ok = to.word.CompareAndSwap(word, next|queued); !ok {
		return false, false
	}
	if over {
		s.runOver(true)
	}
	if word&queued == 0 { // otherwise it is on an inbox already, or the goroutine that has set the bit pushes it and wakes the worker
		s.push(to)
		t.worker.wakeFor(soon)
	}
	return false, true
}

// runOver counts a run of a repeating timeout that is over. If armed is true, the timeout was armed for the next run, or
// was canceled or returned before that. A run in progress does not count as expired, because the timeout is still pending.
func (s *stripe) runOver(armed bool) {
	if armed {
		s.runs.Add(1)
	} else {
		s.expired.Add(1)
	}
}

// Every returns a schedule with a fixed interval, which must be positive. Each run is due a multiple of the interval
// after the call of Schedule, without drift. Runs may be missed, because the task was slow or the machine was busy.
// Then one run makes up for them at once, and the next run is due at the next multiple. At most one run starts in each
// tick.
//
// After a Reset, the multiples count from the time of the run that the Reset has moved.
//
// To end after some runs, or to log each run, wrap the task and not the schedule: the task may call Cancel. A Schedule
// of your own that embeds the result of Every, or calls its Next, has no fixed interval. Such a schedule follows the
// wall clock, and a missed run moves all later runs.
func Every(interval time.Duration) Schedule { return every(interval) }

type every time.Duration

func (e every) Next(prev time.Time) time.Time { return prev.Add(time.Duration(e)) }

// Jitter returns a schedule that delays each run of s at random, so that many tasks do not run at once. The delays are
// evenly distributed, from zero to a fraction of the time since the run before, or of the pause. The fraction is 0 to
// 1. The delays do not add up, because Timer.Schedule gives s the time without the delay. To use a Schedule of your
// own, pass it to Jitter. If your Schedule embeds the result of Jitter or calls its Next, the delays add up.
//
// In a bubble of testing/synctest, times have no monotonic reading. So there a pause, time.Now().Add(d), counts from the
// time for which the run before was due, as a time of the day does.
func Jitter(s Schedule, fraction float64) Schedule {
	if j, ok := s.(*jittered); ok {
		return &jittered{j.exact, append(slices.Clip(j.jitter), fraction)}
	}
	return &jittered{s, jitter{fraction}}
}

// A jittered is a schedule with jitter. The schedule exact has none, because times counted from a jittered time
// would drift.
type jittered struct {
	exact  Schedule
	jitter jitter
}

// Next is for callers that use the schedule without a Timer.
func (j *jittered) Next(prev time.Time) time.Time { return j.jitter.add(j.exact.Next(prev), prev) }

// A jitter has the fraction of each call of Jitter.
type jitter []float64

// add returns next, which is the time after prev by the exact schedule, plus the jitter. It leaves a zero Time alone. A pause
// counts from now, because prev has no monotonic reading, and the wall clock may have been set since then.
func (j jitter) add(next, prev time.Time) time.Time {
	if hasMonotonic(next) && !hasMonotonic(prev) {
		prev = time.Now()
	}
	return next.Add(j.of(next.Sub(prev)))
}

// of returns the jitter of a run that is due when gap has passed since the run before. The sum of gap and jitter fits a
// Duration. Adding the sum to a time may overflow once. The result is then negative.
func (j jitter) of(gap time.Duration) time.Duration {
	sum := gap
	for _, fraction := range j {
		if sum > 0 {
			sum = ticks.Later(sum, time.Duration(fraction*rand.Float64()*float64(sum))) // Float64 is less than 1, so the product fits
		}
	}
	return sum - gap
}

// checkSchedule returns an error if a schedule is nil, or an invalid one of Every or Jitter.
func checkSchedule(s Schedule) error {
	switch s := s.(type) {
	case nil:
		return errors.New("hashedwheel: Schedule: nil schedule")
	case every:
		if s <= 0 {
			return fmt.Errorf("hashedwheel: Schedule: interval %v of Every must be positive", time.Duration(s))
		}
	case *jittered:
		for _, fraction := range s.jitter {
			if !(fraction >= 0 && fraction <= 1) { // or NaN
				return fmt.Errorf("hashedwheel: Schedule: Jitter with fraction %v: it must be 0 to 1", fraction)
			}
		}
		return checkSchedule(s.exact)
	}
	return nil
}
