package main

import (
	"slices"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

const (
	raceLaps  = 150
	raceOps   = 2_000
	raceDelay = time.Minute // of the timers that are canceled
)

// A score is what the page shows of one side of the race.
type score struct {
	ns   float64       // to arm a timer and cancel another one: the average of the middle half of the laps
	late time.Duration // of timers that fire: the median, from their deadline to the start of their function
}

// race runs the same load on package time and on a timer of the library. It calls show after each lap.
func race(pending, laps int, show func(lap int, scores [2]score)) error {
	timer, err := hashedwheel.New(hashedwheel.WithTick(tick))
	if err != nil {
		return err
	}
	defer timer.Stop()
	runtime := newRunner(pending, time.AfterFunc, (*time.Timer).Stop)
	defer runtime.stop()
	wheel := newRunner(pending, func(d time.Duration, f func()) *hashedwheel.Timeout {
		to, _ := timer.AfterFunc(d, f) // it fails only after Stop, or for a nil function
		return to
	}, (*hashedwheel.Timeout).Cancel)
	defer wheel.stop()
	for lap := range laps {
		delay := 30*time.Millisecond + time.Duration(lap%40)*time.Millisecond
		runtime.lap(delay)
		wheel.lap(delay)
		time.Sleep(5 * time.Millisecond) // the timers that are due can run
		show(lap+1, [2]score{runtime.score(), wheel.score()})
	}
	return nil
}

// A runner is one side of the race, with its own kind of timer.
type runner[T any] struct {
	after  func(time.Duration, func()) T
	cancel func(T) bool
	timers []T // all are pending
	next   int
	spent  []time.Duration // by the laps
	lates  chan time.Duration
	late   []time.Duration
}

func newRunner[T any](pending int, after func(time.Duration, func()) T, cancel func(T) bool) *runner[T] {
	r := &runner[T]{after: after, cancel: cancel, lates: make(chan time.Duration, raceLaps)}
	for range pending {
		r.timers = append(r.timers, after(raceDelay, func() {}))
	}
	return r
}

// lap arms one timer that fires, measures raceOps times a cancel and an arm, and collects what has fired.
func (r *runner[T]) lap(delay time.Duration) {
	deadline := time.Now().Add(delay)
	r.after(delay, func() { r.lates <- time.Since(deadline) })
	start := time.Now()
	for range raceOps {
		r.cancel(r.timers[r.next])
		r.timers[r.next] = r.after(raceDelay, func() {})
		r.next = (r.next + 1) % len(r.timers)
	}
	r.spent = append(r.spent, time.Since(start))
	for len(r.lates) > 0 {
		r.late = append(r.late, <-r.lates)
	}
}

func (r *runner[T]) score() score {
	slices.Sort(r.spent)
	var s score
	middle := r.spent[len(r.spent)/4 : len(r.spent)-len(r.spent)/4]
	for _, d := range middle {
		s.ns += float64(d) / float64(raceOps*len(middle))
	}
	if len(r.late) > 0 {
		slices.Sort(r.late)
		s.late = r.late[len(r.late)/2]
	}
	return s
}

func (r *runner[T]) stop() {
	for _, t := range r.timers {
		r.cancel(t)
	}
}
