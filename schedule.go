package hashedwheel

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
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
	elapsed := t.clock.elapsed()
	r.period = period
	r.tick = t.clock.due(elapsed, initialDelay)
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
	r.tick = t.clock.due(t.clock.elapsed(), initialDelay)
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
