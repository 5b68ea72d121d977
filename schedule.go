package hashedwheel

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// A Schedule says when a repeating task runs. A parsed expression of robfig/cron is one.
type Schedule interface {
	// Next returns the time of the run after prev, or the zero Time if there is none. Prev
	// is the time that it returned before, or for the first run the present; if that run
	// was moved, by a Reset or because its time had passed already, it is the tick boundary
	// that it was moved to.
	//
	// It is called by the goroutine that calls Timer.Schedule, then by the one that has
	// run the task, each time when that has returned. A panic of the latter is reported as
	// one of the task is, and ends the schedule; a runtime.Goexit ends it too.
	Next(prev time.Time) time.Time
}

// Every returns the schedule of a fixed interval, for Jitter, or for runs that are dropped
// when they have been missed: ScheduleAtFixedRate makes up for them instead. The interval must
// be positive, as Timer.Schedule then says.
func Every(interval time.Duration) Schedule { return every(interval) }

type every time.Duration

func (e every) Next(prev time.Time) time.Time { return prev.Add(time.Duration(e)) }

// Jitter returns a schedule that is late by a random part of the time between two runs, so
// that a thousand of them do not beat together: evenly distributed from nothing to fraction
// times that time, 0.1 for up to a tenth. It is never early. With Timer.Schedule the delays do
// not add up: each is counted from what s says. The fraction must be 0 to 1, as Timer.Schedule
// then says.
func Jitter(s Schedule, fraction float64) Schedule { return &jittered{s, fraction} }

type jittered struct {
	schedule Schedule
	fraction float64
}

// Next serves callers who use the schedule without a Timer.
func (j *jittered) Next(prev time.Time) time.Time {
	return late(j.schedule.Next(prev), prev, j.fraction)
}

// exact returns the schedule without jitter: what is counted from a jittered time would drift.
func (j *jittered) exact() Schedule {
	if inner, ok := j.schedule.(*jittered); ok {
		return inner.exact()
	}
	return j.schedule
}

// delay returns next, the time after prev by the exact schedule, as late as the jitter makes it. J may
// be nil.
func (j *jittered) delay(next, prev time.Time) time.Time {
	if j == nil {
		return next
	}
	if inner, ok := j.schedule.(*jittered); ok {
		next = inner.delay(next, prev)
	}
	return late(next, prev, j.fraction)
}

// late returns next, or up to fraction of the time since prev later.
func late(next, prev time.Time, fraction float64) time.Time {
	gap := next.Sub(prev)
	if next.IsZero() || gap <= 0 {
		return next
	}
	return next.Add(time.Duration(fraction * rand.Float64() * float64(gap)))
}

// check returns an error if the schedule cannot be one.
func check(s Schedule) error {
	switch s := s.(type) {
	case nil:
		return errors.New("hashedwheel: Schedule: nil schedule")
	case every:
		if s <= 0 {
			return fmt.Errorf("hashedwheel: Schedule: Every with interval %v: it must be positive", time.Duration(s))
		}
	case *jittered:
		if !(s.fraction >= 0 && s.fraction <= 1) { // as for NaN
			return fmt.Errorf("hashedwheel: Schedule: Jitter with fraction %v: it must be 0 to 1", s.fraction)
		}
		return check(s.schedule)
	}
	return nil
}

// ScheduleAtFixedRate arms a timeout whose task runs after initialDelay and then once each
// period: run n is due at initialDelay + n*period from now, without drift, however short the
// tick and the period are. A run starts when the one before has returned. Those that were
// missed meanwhile follow at once, one after another.
//
// One handle stands for all runs. Cancel, also from inside the task, ends them; Reset moves the
// next one; a panic in the task does not end them. Until it has ended the timeout is neither
// expired nor canceled, and takes one of WithMaxPending. A run allocates nothing, unless an
// executor runs it.
//
// The error is ErrNilTask, ErrStopped or ErrTooManyPending, or says that the period is not
// positive. An initial delay of zero or less means at the next tick boundary.
func (t *Timer) ScheduleAtFixedRate(task Task, initialDelay, period time.Duration) (*Timeout, error) {
	return t.repeat(t.atFixedRate(task, initialDelay, period))
}

// ScheduleWithFixedDelay is like ScheduleAtFixedRate, but each run is due when delay has passed
// since the end of the one before. So none is ever missed.
func (t *Timer) ScheduleWithFixedDelay(task Task, initialDelay, delay time.Duration) (*Timeout, error) {
	return t.repeat(t.withFixedDelay(task, initialDelay, delay))
}

// Schedule is like ScheduleAtFixedRate, but the runs are due when the schedule says. A time
// that has passed already, because the task took long or for any other reason, counts as the
// next tick boundary, and the schedule goes on from there.
//
// When the schedule returns the zero Time, the timeout ends as expired. If the first is zero,
// or the schedule is nil, that is an error, since the task would never run.
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

// newRepeating returns a repeating whose schedule is yet to be set.
func newRepeating(task Task) (*repeating, error) {
	task, _ = adopt(task)
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
		return nil, fmt.Errorf("hashedwheel: ScheduleAtFixedRate: period %v: it must be positive", period)
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
		return nil, fmt.Errorf("hashedwheel: ScheduleWithFixedDelay: delay %v: it must be positive", delay)
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
	if err := check(schedule); err != nil {
		return nil, err
	}
	r.schedule, r.at = schedule, time.Now()
	if j, ok := schedule.(*jittered); ok {
		r.schedule, r.jitter = j.exact(), j
	}
	if !r.next(&t.clock) {
		return nil, fmt.Errorf("hashedwheel: Schedule: the first time of %T is zero: the task would never run", r.schedule)
	}
	return r, nil
}
