// Package recur has the schedules of the library: a fixed interval, and jitter around any other schedule.
package recur

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// A Schedule is a hashedwheel.Schedule.
type Schedule interface {
	Next(prev time.Time) time.Time
}

// Every is a schedule with a fixed interval.
type Every time.Duration

// Next returns the time after prev.
func (e Every) Next(prev time.Time) time.Time { return prev.Add(time.Duration(e)) }

// A Jittered is a schedule with jitter. Its own schedule has none, because times counted from a jittered time would drift.
type Jittered struct {
	Exact  Schedule
	Jitter Jitter
}

// WithJitter returns a schedule that delays each time of s by up to a fraction of the time since the one before.
func WithJitter(s Schedule, fraction float64) *Jittered {
	if j, ok := s.(*Jittered); ok {
		return &Jittered{j.Exact, append(slices.Clip(j.Jitter), fraction)}
	}
	return &Jittered{s, Jitter{fraction}}
}

// Next is for callers that use the schedule without a Timer.
func (j *Jittered) Next(prev time.Time) time.Time { return j.Jitter.Add(j.Exact.Next(prev), prev) }

// A Jitter has the fraction of each call of WithJitter.
type Jitter []float64

// Add returns next, which is the time after prev by the exact schedule, plus the jitter. It leaves a zero Time alone.
func (j Jitter) Add(next, prev time.Time) time.Time {
	for _, fraction := range j {
		if gap := next.Sub(prev); gap > 0 {
			next = next.Add(time.Duration(fraction * rand.Float64() * float64(gap)))
		}
	}
	return next
}

// Check returns an error if a schedule is nil, or one of this package that is invalid.
func Check(s Schedule) error {
	switch s := s.(type) {
	case nil:
		return errors.New("hashedwheel: Schedule: nil schedule")
	case Every:
		if s <= 0 {
			return fmt.Errorf("hashedwheel: Schedule: interval %v of Every must be positive", time.Duration(s))
		}
	case *Jittered:
		for _, fraction := range s.Jitter {
			if !(fraction >= 0 && fraction <= 1) { // or NaN
				return fmt.Errorf("hashedwheel: Schedule: Jitter with fraction %v: it must be 0 to 1", fraction)
			}
		}
		return Check(s.Exact)
	}
	return nil
}
