package hashedwheel

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/pace"
)

// While producers arm very many timeouts, the worker leaves them the far ones, and only checks whether producers pause. In
// these scenes a timeout is near if it is due within three ticks after the last round, and the worker checks every second
// tick. Whatever the order of the steps, it takes each timeout in time: at the tick at which the timeout becomes near, or
// when a Reset hurries it.

const nearTicks = 3

// fast makes the worker take producers for fast, until check makes the last checks.
func (s *scene) fast() {
	s.timer.queue.horizon = nearTicks
	s.setPace(pace.Pace{At: math.MaxInt64 / 2, Fast: 8 * tick})
}

// far returns an act whose timeout is on the far lane. The worker is idle, and the next round is in one and a half ticks.
func (s *scene) far(delay time.Duration) *act {
	a := s.own()
	s.prompt = true
	s.fast()
	s.tickAway(2)
	a.reset(delay)
	synctest.Wait()
	require.Less(s, s.timer.worker.state.Load(), resting)
	require.Less(s, (s.timer.worker.position.Load()>>1+1)<<idleShift, s.timer.worker.state.Load())
	require.NotNil(s, s.timer.queue.stripes[0].far.pushed.head.Load())
	return a
}

// farKept is like far, but a producer has kept the timeout.
func (s *scene) farKept(delay time.Duration) *act {
	a := s.far(delay)
	s.keep()
	require.NotZero(s, s.timer.queue.stripes[0].far.kept.n.Load())
	return a
}

// known returns an act whose timeout is in a bucket. Another timeout is on the far lane.
func (s *scene) known(delay time.Duration) *act {
	a := s.pending(delay)
	synctest.Wait()
	s.tickAway(1)
	s.far(hour)
	return a
}

// pause makes producers pause, so that the next round takes all timeouts.
func (s *scene) pause() { s.setPace(pace.Pace{At: math.MaxInt64 / 2}) }

// checkFar checks that the worker comes for each far timeout before it is due. No round is in progress.
func (s *scene) checkFar() {
	q := &s.timer.queue
	check := func(to *Timeout, by uint64) {
		for ; to != nil; to = to.link {
			if word := to.word.Load(); status(word) == pending && word&(queued|fresh) == fresh {
				require.LessOrEqual(s, by, q.nearAt(tickOf(word)), "the worker comes too late")
			}
		}
	}
	for i := range q.stripes {
		on := &q.stripes[i]
		if head := on.far.pushed.head.Load(); head != closed {
			check(head, on.pushedNear.Load())
		}
		for seg := on.far.kept.first; seg != nil; seg = seg.next {
			require.LessOrEqual(s, on.keptNear.Load(), seg.near)
			check(seg.first, seg.near)
		}
	}
}

// A far timeout is reset to the next tick, or to one that becomes near later. The worker has not taken it: the Reset
// hurries it, unless a round takes the lane before.

func TestStepsFarReset(t *testing.T) {
	search(t, timed, timedAfter, func(s *scene) {
		a := s.far(hour)
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsFarResetRound(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		a := s.far(hour)
		s.Go(func() { a.reset(0) })
		s.race(2 * tick)
	})
}

func TestStepsFarResetPause(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		a := s.far(hour)
		s.pause()
		s.Go(func() { a.reset(0) })
		s.race(2 * tick)
	})
}

func TestStepsFarResetLater(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		a := s.far(hour)
		s.pause()
		s.Go(func() { a.reset(4 * tick) })
		s.race(2 * tick)
	})
}

// Two are reset, and the round that one of them starts may end before the other is reset.
func TestStepsFarResetTwo(t *testing.T) {
	search(t, plain.Bounded(3), timed, func(s *scene) {
		a := s.far(hour)
		b := s.pending(hour)
		s.Go(func() { a.reset(0) })
		s.Go(func() { b.reset(4 * tick) })
		s.race(0)
	})
}

// It has been canceled. With a limit, Reset has to take a slot.
func TestStepsFarResetCanceled(t *testing.T) {
	search(t, timed, timedAfter, func(s *scene) {
		s.limited(2)
		a := s.far(hour)
		a.cancel(0)
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

// It is hurried already, for a tick that becomes near later, or is canceled. So a second Reset does not push it. The worker
// must come in time all the same, also if the first Reset has not pushed it yet.

func TestStepsFarResetTwice(t *testing.T) {
	search(t, timed, timedAfter, func(s *scene) {
		a := s.far(hour)
		a.reset(hour / 2)
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsFarResetsMeet(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		a := s.far(hour)
		s.Go(func() { a.to.Reset(hour / 2) })
		s.Go(func() { a.to.Reset(0) })
		s.Race(0)
		a.until = time.Duration(tickOf(a.to.word.Peek())) * tick // of the Reset that came last
		a.from = a.until - tick
		s.check()
	})
}

func TestStepsFarResetCancelReset(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		a := s.far(hour)
		a.reset(hour / 2)
		s.Go(func() { a.cancel(0); a.reset(0) })
		s.race(0)
	})
}

// It lies in a kept segment.

func TestStepsFarResetKept(t *testing.T) {
	search(t, timed, timedAfter, func(s *scene) {
		a := s.farKept(hour)
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsFarResetKeptPause(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		a := s.farKept(hour)
		s.pause()
		s.Go(func() { a.reset(0) })
		s.race(2 * tick)
	})
}

func TestStepsFarResetKeptLater(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		a := s.farKept(hour)
		s.pause()
		s.Go(func() { a.reset(4 * tick) })
		s.race(2 * tick)
	})
}

// A producer prunes it.

func TestStepsFarResetPruned(t *testing.T) {
	search(t, plain.Bounded(3), timed.Bounded(3), func(s *scene) {
		a := s.far(hour)
		s.Go(s.prune)
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsFarResetPrunedRound(t *testing.T) {
	search(t, plain.Bounded(2), timed.Bounded(3), func(s *scene) {
		a := s.far(hour)
		s.Go(s.prune)
		s.Go(func() { a.reset(0) })
		s.race(2 * tick)
	})
}

func TestStepsFarResetPrunedLater(t *testing.T) {
	search(t, plain.Bounded(2), timed.Bounded(3), func(s *scene) {
		a := s.far(hour)
		s.pause()
		s.Go(s.prune)
		s.Go(func() { a.reset(4 * tick) })
		s.race(2 * tick)
	})
}

func TestStepsFarResetPrunedKept(t *testing.T) {
	search(t, plain.Bounded(2), timed.Bounded(3), func(s *scene) {
		a := s.farKept(hour)
		s.Go(s.prune)
		s.Go(func() { a.reset(0) })
		s.race(2 * tick)
	})
}

// It has been canceled, so the producer drops it, unless it is armed again before.
func TestStepsFarResetPrunedCanceled(t *testing.T) {
	search(t, plain.Bounded(2), timed.Bounded(3), func(s *scene) {
		a := s.far(hour)
		a.cancel(0)
		s.Go(s.prune)
		s.Go(func() { a.reset(2 * hour) })
		s.race(0)
	})
}

// A boundary passes while a producer has the timeout, so it is overdue when it is put back.
func TestStepsFarResetPrunedTimed(t *testing.T) {
	search(t, timed.Bounded(2).Quickly(1), timed.Bounded(3), func(s *scene) {
		a := s.far(hour)
		s.Go(s.prune)
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

// A far timeout is armed, while a round takes what has become near.

func TestStepsFarPushTaken(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		s.far(4 * tick)
		b := s.act()
		s.Go(func() { b.arm(4 * tick) })
		s.race(2 * tick)
	})
}

func TestStepsFarPushPause(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		s.far(hour)
		b := s.act()
		s.pause()
		s.Go(func() { b.arm(4 * tick) })
		s.race(2 * tick)
	})
}

// A producer prunes at the same time.
func TestStepsFarPushPruned(t *testing.T) {
	search(t, timed.Quickly(2), timed, func(s *scene) {
		s.far(hour)
		b := s.act()
		s.Go(s.prune)
		s.Go(func() { b.arm(4 * tick) })
		s.race(0)
	})
}

// A round takes what has become near, while a producer prunes it.

func TestStepsFarPruneTaken(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed, func(s *scene) {
		s.far(4 * tick)
		s.Go(s.prune)
		s.race(2 * tick)
	})
}

func TestStepsFarPruneKeptTaken(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed, func(s *scene) {
		s.farKept(4 * tick)
		s.Go(s.prune)
		s.race(2 * tick)
	})
}

// The round takes one segment, and puts another back.
func TestStepsFarKeptTaken(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed, func(s *scene) {
		s.farKept(4 * tick)
		s.pending(4 * tick)
		s.keep()
		s.pending(5 * tick)
		s.Go(s.prune)
		s.race(2 * tick)
	})
}

func TestStepsFarStop(t *testing.T) {
	search(t, plain, timed, func(s *scene) {
		a := s.far(hour)
		s.Go(func() { a.reset(0) })
		s.Go(s.stop)
		s.race(0)
	})
}

// The worker takes the lane, while the Reset is about to hurry the timeout and Stop begins.
func TestStepsFarResetStop(t *testing.T) {
	search(t, plain.Bounded(3), timed.Bounded(3), func(s *scene) {
		a := s.far(hour)
		s.pause()
		s.Go(func() { a.reset(0) })
		s.Go(s.stop)
		s.race(2 * tick)
	})
}

// A producer drops a canceled timeout from the list hurried, while it is armed again.
func TestStepsHurriedDropped(t *testing.T) {
	search(t, timed, timedAfter, func(s *scene) {
		a := s.far(hour)
		a.reset(hour / 2)
		a.cancel(0)
		l := &s.timer.queue.stripes[0].hurried
		require.Len(s, l.all, 1)
		s.Go(func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.check()
		})
		s.Go(func() { a.reset(4 * tick) })
		s.race(0)
	})
}

func TestStepsFarKeptStop(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		s.farKept(4 * tick)
		s.Go(s.prune)
		s.Go(s.stop)
		s.race(2 * tick)
	})
}

// A far timeout is on the queue, and the round at the boundary is in progress, while something is pushed.

func TestStepsWatchesNear(t *testing.T) {
	search(t, timed.Quickly(3), timedAfter, func(s *scene) {
		s.far(hour)
		b := s.act()
		s.Go(func() { b.arm(0) })
		s.race(2 * tick)
	})
}

func TestStepsWatchesNearFar(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed, func(s *scene) {
		s.far(hour)
		b, c := s.act(), s.act()
		s.Go(func() { b.arm(0) })
		s.Go(func() { c.arm(4 * tick) })
		s.race(2 * tick)
	})
}

func TestStepsWatchesCancel(t *testing.T) {
	search(t, timed.Quickly(3), timedAfter, func(s *scene) {
		a := s.known(hour)
		s.Go(func() { a.cancel(0) })
		s.race(2 * tick)
	})
}

func TestStepsWatchesReset(t *testing.T) {
	search(t, timed.Quickly(3), timedAfter, func(s *scene) {
		a := s.known(hour)
		s.Go(func() { a.reset(0) })
		s.race(2 * tick)
	})
}

// The alarm may ring while another round is in progress.
func TestStepsWatchesNudge(t *testing.T) {
	search(t, timed.Bounded(2).Quickly(1), timed, func(s *scene) {
		s.far(hour)
		b := s.act()
		s.Go(s.timer.worker.nudge)
		s.Go(func() { b.arm(0) })
		s.race(2 * tick)
	})
}

func TestStepsWatchesStop(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed, func(s *scene) {
		s.far(hour)
		b := s.act()
		s.Go(func() { b.arm(0) })
		s.Go(s.stop)
		s.race(2 * tick)
	})
}

func TestStepsNudgeStop(t *testing.T) {
	search(t, timed.Quickly(3), timed, func(s *scene) {
		s.far(hour)
		s.Go(s.timer.worker.nudge)
		s.Go(s.stop)
		s.race(2 * tick)
	})
}

// The worker is about to rest, while a far timeout is armed.
func TestStepsRestsFar(t *testing.T) {
	search(t, timed.Quickly(3), timedAfter, func(s *scene) {
		s.fast()
		s.pending(0)
		s.tickAway(1)
		b := s.act()
		s.Go(func() { b.arm(4 * tick) })
		s.race(tick)
	})
}

// Nothing has been pending for some time, and the worker is about to give back its memory.

func (s *scene) unused(a *act, delay time.Duration) {
	a.reset(delay)
	s.tickAway(int(keepMemory / tick))
	require.NotNil(s, s.timer.worker.wheel)
}

func TestStepsReleases(t *testing.T) {
	search(t, timed.Quickly(3), timedAfter, func(s *scene) {
		a := s.own()
		s.unused(a, 0)
		s.Go(func() { a.reset(0) })
		s.race(tick)
	})
}

func TestStepsReleasesTwo(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed, func(s *scene) {
		a, b := s.own(), s.act()
		s.unused(a, 0)
		s.Go(func() { a.reset(tick) })
		s.Go(func() { b.arm(0) })
		s.race(tick)
	})
}

func TestStepsReleasesStop(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed, func(s *scene) {
		a := s.own()
		s.unused(a, 0)
		s.Go(func() { a.reset(0) })
		s.Go(s.stop)
		s.race(tick)
	})
}
