package hashedwheel

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/explore"
)

// The worker, or a runner that is about to claim a timeout, puts it off because its run is not due by the wall clock. Or the
// runner asks Next again, because the clock was set back. Meanwhile other goroutines end or move the timeout.

// byWall returns an act whose timeout follows the wall clock, and is armed: due after a delay, and then each hour. There is
// a step at each tick. Set sets the wall clock forward.
func (s *scene) byWall(delay time.Duration, arm func(task Task, schedule Schedule) (*Timeout, error)) (a *act, set func(by time.Duration)) {
	a = s.act()
	a.repeats = true
	var ahead explore.Int64 // with gates
	s.timer.wall.Step, s.timer.wall.Ahead = 1, func() time.Duration { return time.Duration(ahead.Load()) }
	from := s.now()
	a.to, a.err = arm(plainFunc(a.run), firstAt{time.Now().Add(delay)})
	a.note(from, delay, a.err == nil)
	return a, func(by time.Duration) {
		ahead.Add(int64(by))
		a.until = max(a.until-by, 0)
		if waits(a.word()) && len(a.fired) == 0 { // otherwise it has been claimed, perhaps by the time from before
			a.from -= by
		}
	}
}

// firstAt is a schedule with a run at that time, and one each hour after it.
type firstAt struct{ time.Time }

func (f firstAt) Next(prev time.Time) time.Time {
	if prev.Before(f.Time) {
		return f.Time
	}
	return prev.Add(hour)
}

var _ = scenarios.Add(explore.Scenarios{
	// The timeout has a step at tick 1, and is due at tick 2.
	"StepExpiry": search(timed.Quickly(1), twice,
		func(s *scene) { s.byWall(2*tick, s.timer.Schedule); s.tickAway(0); s.race(2 * tick) }),
	"StepCancel": search(timed.Quickly(1), twice, func(s *scene) {
		a, _ := s.byWall(2*tick, s.timer.Schedule)
		s.tickAway(0)
		a.cancels()
		s.race(tick)
	}),
	"StepReset": search(timed.Quickly(1), twice, func(s *scene) {
		a, _ := s.byWall(2*tick, s.timer.Schedule)
		s.tickAway(0)
		s.Go(func() {
			a.reset(3 * tick)
			a.from = 0 // it may have run before
		})
		s.race(tick)
	}),
	// The Reset is to now, so the timeout is due while the worker puts it off.
	"StepResetNow": search(timed.Quickly(1), twice,
		func(s *scene) { a, _ := s.byWall(hour, s.timer.Schedule); s.tickAway(0); a.resets(0); s.race(tick) }),
	"StepStop": search(timed.Quickly(1), twice,
		func(s *scene) { s.byWall(2*tick, s.timer.Schedule); s.tickAway(0); s.stops(); s.race(tick) }),
	"StepClose": search(timed.Quickly(1), twice, func(s *scene) {
		g := NewGroup(s.timer)
		a, _ := s.byWall(2*tick, g.Schedule)
		s.tickAway(0)
		s.Go(func() { a.wins += g.Close() })
		s.race(tick)
		require.Zero(s, g.Len())
	}),
	"StepTasks": search(timed.Quickly(1), timed, func(s *scene) {
		s.byWall(hour, s.timer.Schedule)
		s.tickAway(0)
		s.Go(func() {
			n := 0
			for range s.timer.Tasks() {
				n++
			}
			require.Equal(s, 1, n)
		})
		s.race(tick)
	}),

	// Another goroutine sets the clock back while the timeout comes due. So the runner may find it not due, and put it off.
	"ClaimPutsOff": search(timed.Quickly(1), twice, func(s *scene) {
		_, set := s.byWall(tick, s.timer.Schedule)
		s.tickAway(0)
		s.Go(func() { set(-tick) })
		s.race(tick)
	}),
	"ClaimPutsOffCancel": search(timed.Quickly(1), twice, func(s *scene) {
		a, set := s.byWall(tick, s.timer.Schedule)
		s.tickAway(0)
		s.Go(func() { set(-tick) })
		a.cancels()
		s.race(tick)
	}),
	"ClaimPutsOffReset": search(timed.Quickly(1), twice, func(s *scene) {
		a, set := s.byWall(tick, s.timer.Schedule)
		s.tickAway(0)
		s.Go(func() {
			set(-tick)
			a.reset(3 * tick)
			a.from = 0 // it may have run before
		})
		s.race(tick)
	}),
	"ClaimPutsOffStop": search(timed.Quickly(1), twice, func(s *scene) {
		_, set := s.byWall(tick, s.timer.Schedule)
		s.tickAway(0)
		s.Go(func() {
			set(-tick)
			s.stop()
		})
		s.race(tick)
	}),

	// The clock is set back to before the schedule was made. At the step the runner asks Next again.
	"AskCancel": search(timed.Quickly(1), twice, func(s *scene) {
		a, set := s.byWall(tick, s.timer.Schedule)
		s.tickAway(0)
		set(-3 * tick)
		a.cancels()
		s.race(tick)
	}),
	"AskReset": search(timed.Quickly(1), twice, func(s *scene) {
		a, set := s.byWall(tick, s.timer.Schedule)
		s.tickAway(0)
		set(-3 * tick)
		s.Go(func() {
			a.reset(2 * tick)
			a.from = 0 // it may have run before
		})
		s.race(tick)
	}),
	"AskStop": search(timed.Quickly(1), twice, func(s *scene) {
		_, set := s.byWall(tick, s.timer.Schedule)
		s.tickAway(0)
		set(-3 * tick)
		s.stops()
		s.race(tick)
	}),
	"AskClose": search(timed.Quickly(1), twice, func(s *scene) {
		g := NewGroup(s.timer)
		a, set := s.byWall(tick, g.Schedule)
		s.tickAway(0)
		set(-3 * tick)
		s.Go(func() { a.wins += g.Close() })
		s.race(tick)
		require.Zero(s, g.Len())
	}),
	// A WaitRunning meets the call of Next.
	"AskWait": search(timed.Quickly(1), timed, func(s *scene) {
		a, set := s.byWall(tick, s.timer.Schedule)
		s.tickAway(0)
		set(-3 * tick)
		s.Go(func() { require.NoError(s, a.to.WaitRunning(context.Background())) })
		s.race(tick)
	}),
	// The clock is set forward while a run ends.
	"SetAtWork": search(timed.Quickly(1), timed, func(s *scene) {
		a, set := s.byWall(0, s.timer.Schedule)
		a.held = make(chan struct{})
		s.tickAway(2)
		s.Go(func() { close(a.held) })
		s.Go(func() { set(2 * hour) })
		s.race(0)
	}),
})
