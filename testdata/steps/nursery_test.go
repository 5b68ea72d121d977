package hashedwheel

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A producer arms a timeout. The hand drops another one, passes it, moves it on or doubles the table. The worker takes
// timeouts from the same slots, or gives back the table. At the same time something else happens. No timeout is lost,
// and none is late. In scenes a block has two slots, and a new table has two blocks.

func (s *scene) nursery() *ring { return &s.timer.queue.stripes[0].nursery }

func (s *scene) inbox() *ring { return &s.timer.queue.stripes[0].inbox }

// handBefore moves the hand of a ring on, as if it had passed some slots, until it comes to a slot next.
func handBefore(r *ring, slot int) {
	size := uint64(minBlocks * blockSize)
	if t := r.table.Load(); t != nil {
		size = uint64(len(t.blocks) * blockSize)
	}
	for r.hand()%size != uint64(slot) {
		r.passed.Add(1)
	}
	if t := r.table.Load(); t != nil {
		t.passed.Store(r.passed.Load())
		t.end.Store((r.hand() + size - 1) / size * size) // slot 0 begins a lap
	}
}

// find returns the ring where the timeout is, its block, its slot there, and how many slots come before the block.
func (a *act) find() (r *ring, b *block, slot, before int) {
	for _, r := range []*ring{a.s.nursery(), a.s.inbox()} {
		if t := r.table.Load(); t != nil {
			for i := range t.blocks {
				if b := t.blocks[i].Load(); b != nil {
					for j := range b.slots {
						if b.slots[j].Load() == a.to {
							return r, b, j, i * blockSize
						}
					}
				}
			}
		}
	}
	require.Fail(a.s, "the timeout is in no slot")
	return nil, nil, 0, 0
}

// meets adds a racer that arms a timeout, and whose hand comes to the slot of a timeout first.
func (s *scene) meets(a *act, delay time.Duration) *act {
	r, _, slot, before := a.find()
	handBefore(r, before+slot)
	return s.arms(delay)
}

// arms adds a racer that arms a timeout.
func (s *scene) arms(delay time.Duration) *act {
	b := s.act()
	s.Go(func() { b.arm(delay) })
	return b
}

// doubles prepares a ring so that its next lap doubles it. This lap begins with the next slot, and then come new blocks.
func doubles(r *ring) {
	t := r.table.Load()
	for i := range t.blocks {
		t.block(uint64(i))
	}
	handBefore(r, 0)
	size := uint64(len(t.blocks) * blockSize)
	if r.hand()%(2*size) == 0 {
		r.passed.Add(size)
	}
	t.passed.Store(r.passed.Load() - size)
	t.end.Store(r.hand())
}

// grow doubles a ring. So the worker gives back its table.
func (s *scene) grow(r *ring) {
	if r.table.Load() == nil {
		r.table.Store(newTable(r, minBlocks))
	}
	doubles(r)
	s.timer.worker.lap(r, r.table.Load())
	require.True(s, r.large())
	handBefore(r, 1)
}

// ages prepares the nursery so that the hand moves the timeout on when it meets it.
func (a *act) ages() {
	r, b, slot, _ := a.find()
	t := r.table.Load()
	t.aging.Store(true)
	t.nextAge.Store(1 << 40)
	b.met.Or(1 << slot)
}

// queued returns an act whose timeout is on the queue. The worker takes the queue in half a tick. Another timeout is
// in a bucket.
func (s *scene) queued(delay time.Duration) *act {
	s.prompt = true
	s.tickAway(2)
	s.pending(hour)
	synctest.Wait()
	return s.pending(delay)
}

// queuedAlone is like queued, but no other timeout is pending.
func (s *scene) queuedAlone(delay time.Duration) *act {
	s.prompt = true
	s.tickAway(2)
	s.pending(hour).cancel(0)
	synctest.Wait()
	return s.pending(delay)
}

// queuedCanceled is like queuedAlone, but the timeout has been canceled. If it is in the nursery, it stays there, because it
// has been reset before.
func (s *scene) queuedCanceled(delay time.Duration) *act {
	a := s.queuedAlone(delay)
	if delay == hour {
		a.reset(delay)
	}
	a.cancel(0)
	return a
}

// leftNursery is like queuedCanceled for a timeout that has never been reset. It has left the nursery, but the slot still leads
// to it.
func (s *scene) leftNursery() *act {
	a := s.queuedAlone(hour)
	a.cancel(0)
	require.Zero(s, a.to.word.Peek()&(young|queued))
	return a
}

// The hand finds the slot of a timeout that has left the nursery.

func TestStepsLeftReset(t *testing.T) {
	search(t, timed.Quickly(2), timedAfter, func(s *scene) {
		a := s.leftNursery()
		s.meets(a, hour)
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsLeftResetTaken(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		a := s.leftNursery()
		s.meets(a, hour)
		s.Go(func() { a.reset(2 * hour) })
		s.race(tick)
	})
}

func TestStepsLeftResetCancelTaken(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		a := s.leftNursery()
		s.meets(a, hour)
		s.Go(func() { a.reset(2 * hour); a.cancel(1) })
		s.race(tick)
	})
}

func TestStepsLeftResetReset(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		a := s.leftNursery()
		s.prompt = false // one Reset may leave the push to the other, which is late with it
		s.meets(a, hour)
		s.Go(func() { a.reset(0) })
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsLeftStopReset(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		a := s.leftNursery()
		s.meets(a, hour)
		s.Go(func() { a.reset(2 * hour) })
		s.Go(s.stop)
		s.race(0)
	})
}

// The hand drops a canceled timeout.

func TestStepsDropTaken(t *testing.T) {
	search(t, plain.Quickly(3), timed, func(s *scene) {
		s.meets(s.queuedCanceled(hour), hour)
		s.race(tick)
	})
}

func TestStepsDropReset(t *testing.T) {
	search(t, timed.Quickly(2), timedAfter, func(s *scene) {
		a := s.queuedCanceled(hour)
		s.meets(a, hour)
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsDropResetLater(t *testing.T) {
	search(t, timed.Quickly(2), timedAfter, func(s *scene) {
		a := s.queuedCanceled(hour)
		s.meets(a, hour)
		s.Go(func() { a.reset(2 * hour) })
		s.race(0)
	})
}

func TestStepsDropResetTaken(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		a := s.queuedCanceled(hour)
		s.meets(a, hour)
		s.Go(func() { a.reset(0) })
		s.race(tick)
	})
}

// The timeout is armed again, and canceled again.
func TestStepsDropResetCancel(t *testing.T) {
	search(t, timed.Quickly(2), timedAfter, func(s *scene) {
		a := s.queuedCanceled(hour)
		s.meets(a, hour)
		s.Go(func() { a.reset(2 * hour); a.cancel(1) })
		s.race(0)
	})
}

func TestStepsDropResetReset(t *testing.T) {
	search(t, plain.Bounded(3), timed.Bounded(3), func(s *scene) {
		a := s.queuedCanceled(hour)
		s.prompt = false // one Reset may leave the push to the other, which is late with it
		s.meets(a, hour)
		s.Go(func() { a.reset(0) })
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsDropCancelReset(t *testing.T) {
	search(t, timed.Bounded(3).Quickly(1), timedAfter, func(s *scene) {
		a := s.queuedAlone(hour)
		s.meets(a, hour)
		s.Go(func() { a.cancel(0) })
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsDropStop(t *testing.T) {
	search(t, timed.Quickly(2), timedAfter, func(s *scene) {
		s.meets(s.queuedCanceled(hour), hour)
		s.Go(s.stop)
		s.race(0)
	})
}

func TestStepsDropStopTaken(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		s.meets(s.queuedCanceled(hour), hour)
		s.Go(s.stop)
		s.race(tick)
	})
}

func TestStepsDropStopReset(t *testing.T) {
	search(t, plain.Bounded(3), timed.Bounded(3), func(s *scene) {
		a := s.queuedCanceled(hour)
		s.meets(a, hour)
		s.Go(func() { a.reset(2 * hour) })
		s.Go(s.stop)
		s.race(0)
	})
}

// All other slots have pending timeouts, so that the hands of two producers meet the same one, a lap apart.
func TestStepsDropLap(t *testing.T) {
	search(t, plain.Quickly(3), timed.Bounded(4), func(s *scene) {
		a := s.queuedCanceled(hour)
		for range minBlocks*blockSize - 1 {
			s.pending(hour)
		}
		s.meets(a, hour)
		s.arms(hour)
		s.race(0)
	})
}

// The hand passes a pending timeout.

func TestStepsPassTaken(t *testing.T) {
	search(t, plain.Quickly(3), timed, func(s *scene) {
		s.meets(s.queuedAlone(hour), hour)
		s.race(tick)
	})
}

// Two producers pass it. It counts once, and so does the slot that one of them has just filled.
func TestStepsPassTwice(t *testing.T) {
	search(t, plain.Quickly(3), plain, func(s *scene) {
		a := s.queuedAlone(hour)
		s.meets(a, hour)
		s.arms(hour)
		before := s.nursery().passed.Load()
		s.race(0)
		require.LessOrEqual(s, s.nursery().passed.Load()-before, uint64(2))
	})
}

// Two producers meet it in the first lap that ages. It is moved on only in another.
func TestStepsMeetTwice(t *testing.T) {
	search(t, plain.Quickly(3), plain, func(s *scene) {
		a := s.queuedAlone(hour)
		s.meets(a, hour)
		t := s.nursery().table.Load()
		t.aging.Store(true)
		t.nextAge.Store(1 << 40)
		s.arms(hour)
		s.Race(0)
		require.EqualValues(s, young, a.to.word.Peek()&(young|queued), "moved on in the lap that has met it first")
		s.check()
	})
}

func TestStepsPassCancel(t *testing.T) {
	search(t, timed.Quickly(2), timedAfter, func(s *scene) {
		a := s.queuedAlone(hour)
		s.meets(a, hour)
		s.Go(func() { a.cancel(0) })
		s.race(0)
	})
}

func TestStepsPassReset(t *testing.T) {
	search(t, timed.Quickly(2), timedAfter, func(s *scene) {
		a := s.queuedAlone(hour)
		s.meets(a, hour)
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsPassResetTaken(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		a := s.queued(hour)
		s.meets(a, hour)
		s.Go(func() { a.reset(0) })
		s.race(tick)
	})
}

func TestStepsPassStop(t *testing.T) {
	search(t, timed.Quickly(2), timedAfter, func(s *scene) {
		s.meets(s.queuedAlone(hour), hour)
		s.Go(s.stop)
		s.race(0)
	})
}

// A lap doubles the table.

// queuedFirst is like queuedAlone, and the timeout is in the first slot of a nursery that its next lap doubles.
func (s *scene) queuedFirst() *act {
	a := s.queuedAlone(hour)
	handBefore(s.nursery(), 0)
	a = s.pending(hour)
	doubles(s.nursery())
	return a
}

func TestStepsDoubleTaken(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed, func(s *scene) {
		s.queuedFirst()
		s.arms(hour)
		s.race(tick)
	})
}

func TestStepsDoubleArm(t *testing.T) {
	search(t, timed.Quickly(2), timed, func(s *scene) {
		s.queuedFirst()
		s.arms(hour)
		s.arms(2 * hour)
		s.race(0)
	})
}

func TestStepsDoubleReset(t *testing.T) {
	search(t, timed.Quickly(2), timed, func(s *scene) {
		a := s.queuedFirst()
		s.arms(hour)
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsDoubleCancelReset(t *testing.T) {
	search(t, timed.Quickly(2), timed, func(s *scene) {
		a := s.queuedFirst()
		s.arms(hour)
		s.Go(func() { a.cancel(0); a.reset(2 * hour) })
		s.race(0)
	})
}

func TestStepsDoubleStop(t *testing.T) {
	search(t, timed.Quickly(2), timed, func(s *scene) {
		s.queuedFirst()
		s.arms(hour)
		s.Go(s.stop)
		s.race(0)
	})
}

func TestStepsDoubleStopTaken(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		s.queuedFirst()
		s.arms(hour)
		s.Go(s.stop)
		s.race(tick)
	})
}

// The worker gives back a table that has grown, while its lap doubles it again.
func TestStepsDoubleGivenBack(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed.Bounded(4), func(s *scene) {
		s.queuedAlone(hour)
		s.grow(s.nursery())
		doubles(s.nursery())
		s.arms(hour)
		s.race(tick)
	})
}

func TestStepsDoubleInbox(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed.Bounded(4), func(s *scene) {
		s.queuedAlone(0)
		doubles(s.inbox())
		s.arms(0)
		s.race(tick)
	})
}

// Producers do not pause, so the worker does not give the table back. The second timeout is put into a new block.
func TestStepsDoubleInboxFast(t *testing.T) {
	search(t, plain.Bounded(2), timed.Bounded(2), func(s *scene) {
		s.queuedAlone(0)
		s.setPace(pace{at: math.MaxInt64 / 2, fast: 8 * tick})
		doubles(s.inbox())
		b, c := s.act(), s.act()
		s.Go(func() { b.arm(0); c.arm(0) })
		s.race(tick)
	})
}

func TestStepsDoubleInboxReset(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		a := s.queuedAlone(hour)
		s.pending(0)
		doubles(s.inbox())
		s.arms(0)
		s.Go(func() { a.reset(0) })
		s.race(tick)
	})
}

// The hand moves on a pending timeout that has lived long.

func (s *scene) queuedLong() *act {
	a := s.queuedAlone(hour)
	a.ages()
	return a
}

func TestStepsMoveOn(t *testing.T) {
	search(t, timed.Quickly(3), twiceAfter, func(s *scene) {
		s.meets(s.queuedLong(), hour)
		s.race(0)
	})
}

func TestStepsMoveOnTaken(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed, func(s *scene) {
		s.meets(s.queuedLong(), hour)
		s.race(tick)
	})
}

func TestStepsMoveOnCancel(t *testing.T) {
	search(t, timed.Quickly(2), timed, func(s *scene) {
		a := s.queuedLong()
		s.meets(a, hour)
		s.Go(func() { a.cancel(0) })
		s.race(0)
	})
}

func TestStepsMoveOnReset(t *testing.T) {
	search(t, timed.Quickly(2), timed, func(s *scene) {
		a := s.queuedLong()
		s.meets(a, hour)
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsMoveOnResetLater(t *testing.T) {
	search(t, timed.Quickly(2), timed, func(s *scene) {
		a := s.queuedLong()
		s.meets(a, hour)
		s.Go(func() { a.reset(2 * hour) })
		s.race(0)
	})
}

func TestStepsMoveOnCancelReset(t *testing.T) {
	search(t, timed.Bounded(3).Quickly(1), timed, func(s *scene) {
		a := s.queuedLong()
		s.meets(a, hour)
		s.Go(func() { a.cancel(0); a.reset(0) })
		s.race(0)
	})
}

func TestStepsMoveOnStop(t *testing.T) {
	search(t, timed.Quickly(2), timed, func(s *scene) {
		s.meets(s.queuedLong(), hour)
		s.Go(s.stop)
		s.race(0)
	})
}

func TestStepsMoveOnStopTaken(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		s.meets(s.queuedLong(), hour)
		s.Go(s.stop)
		s.race(tick)
	})
}

// The worker closes a table that has grown.

// queuedLarge is like queuedAlone, and the table of the nursery has grown.
func (s *scene) queuedLarge() *act {
	a := s.queuedAlone(hour)
	s.grow(s.nursery())
	return a
}

func TestStepsGiveBackArm(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed.Bounded(4), func(s *scene) {
		s.queuedLarge()
		s.arms(hour)
		s.race(tick)
	})
}

// The hand comes to a block that nobody has made yet.
func TestStepsGiveBackNewBlock(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed.Bounded(4), func(s *scene) {
		s.queuedLarge()
		handBefore(s.nursery(), 3*blockSize)
		s.arms(hour)
		s.race(tick)
	})
}

func TestStepsGiveBackArmNear(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed.Bounded(4), func(s *scene) {
		s.queuedAlone(0)
		s.grow(s.inbox())
		s.arms(0)
		s.race(tick)
	})
}

func TestStepsGiveBackTwo(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		s.queuedLarge()
		s.arms(hour)
		s.arms(hour)
		s.race(tick)
	})
}

func TestStepsGiveBackCancel(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed.Bounded(4), func(s *scene) {
		a := s.queuedLarge()
		s.Go(func() { a.cancel(0) })
		s.race(tick)
	})
}

func TestStepsGiveBackReset(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed.Bounded(4), func(s *scene) {
		a := s.queuedLarge()
		s.Go(func() { a.reset(0) })
		s.race(tick)
	})
}

func TestStepsGiveBackCancelReset(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		a := s.queuedLarge()
		s.Go(func() { a.cancel(0); a.reset(0) })
		s.race(tick)
	})
}

// The timeout is in a bucket, so a Cancel or a Reset puts it into the inbox, which is being closed.

func TestStepsGiveBackCancelKnown(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed.Bounded(4), func(s *scene) {
		a := s.ownKnown()
		s.grow(s.inbox())
		s.Go(func() { a.reset(hour / 2); a.cancel(1) })
		s.race(tick)
	})
}

func TestStepsGiveBackResetKnown(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed.Bounded(4), func(s *scene) {
		a := s.own()
		a.reset(hour)
		s.tickAway(3)
		s.pending(hour)
		synctest.Wait()
		s.grow(s.inbox())
		s.Go(func() { a.reset(0) })
		s.race(tick)
	})
}

func TestStepsGiveBackMoveOn(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed.Bounded(4), func(s *scene) {
		a := s.queuedLarge()
		a.ages()
		s.meets(a, hour)
		s.race(tick)
	})
}

func TestStepsGiveBackStop(t *testing.T) {
	search(t, plain.Bounded(4).Quickly(3), timed.Bounded(4), func(s *scene) {
		s.queuedLarge()
		s.Go(s.stop)
		s.race(tick)
	})
}

func TestStepsGiveBackArmStop(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		s.queuedLarge()
		s.arms(hour)
		s.Go(s.stop)
		s.race(tick)
	})
}

// Inboxes

func TestStepsInboxDropReset(t *testing.T) {
	search(t, timed.Quickly(2), timedAfter, func(s *scene) {
		a := s.queuedCanceled(tick)
		s.meets(a, tick)
		s.Go(func() { a.reset(0) })
		s.race(0)
	})
}

func TestStepsInboxDropResetTaken(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		a := s.queuedCanceled(0)
		s.meets(a, 0)
		s.Go(func() { a.reset(0) })
		s.race(tick)
	})
}

func TestStepsInboxDropStop(t *testing.T) {
	search(t, plain.Bounded(3), timed.Bounded(3), func(s *scene) {
		a := s.queuedCanceled(0)
		s.meets(a, 0)
		s.Go(func() { a.reset(0) })
		s.Go(s.stop)
		s.race(0)
	})
}

// A timeout is dropped, and comes back to its slot before the producer that has dropped it fills the slot. Meanwhile
// another one was in the slot.
func TestStepsInboxComesBack(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(3), func(s *scene) {
		a := s.queuedCanceled(tick)
		r, _, slot, before := a.find()
		s.meets(a, tick)
		b := s.act()
		s.Go(func() {
			handBefore(r, before+slot)
			b.arm(tick)
			b.cancel(1)
			handBefore(r, before+slot)
			a.reset(tick)
		})
		s.race(0)
	})
}

// A worker takes, places and drops the timeout, and it comes back.
func TestStepsInboxComesBackTaken(t *testing.T) {
	search(t, plain.Bounded(3).Quickly(2), timed.Bounded(4), func(s *scene) {
		a := s.queuedCanceled(0)
		handBefore(s.inbox(), 1)
		s.meets(a, 0)
		s.Go(func() { a.reset(0); a.cancel(1); a.reset(tick) })
		s.race(tick)
	})
}

// The worker takes what is due at a boundary. If it finds nothing else, it rests.

func TestStepsInboxPassDue(t *testing.T) {
	search(t, plain.Quickly(3), timed, func(s *scene) {
		s.meets(s.queued(0), 0)
		s.race(tick)
	})
}

func TestStepsInboxPassBoundaries(t *testing.T) {
	search(t, twice.Quickly(1), twiceAfter, func(s *scene) {
		s.meets(s.queuedAlone(tick), 0)
		s.race(0)
	})
}
