package hashedwheel

import (
	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/explore"
)

// Two racers take and free slots. The number of slots in use never exceeds the limit, and no slot is lost.

// raceForSlots lets each of two racers take the given number of slots, and free them, twice.
func (s *scene) raceForSlots(limit, each int) {
	timer := s.timer
	s.limited(limit)
	held, most := 0, 0
	for range 2 {
		s.Go(func() {
			for range 2 {
				mine := 0
				for range each {
					if timer.limit.acquire() {
						mine++
						held++
						most = max(most, held)
					}
				}
				timer.IsStopped() // a gate: here the other racer may go on
				held -= mine
				for range mine {
					timer.limit.release()
				}
			}
		})
	}
	s.race(0)
	require.Equal(s, limit, most)
	require.Zero(s, timer.limit.inUse.Load())
}

var _ = scenarios.Add(explore.Scenarios{
	"SlotsOne": search(plain, plain, func(s *scene) { s.raceForSlots(1, 1) }),
	"SlotsTwo": search(plain.Bounded(4).Quickly(3), plain, func(s *scene) { s.raceForSlots(2, 2) }),
	// A racer frees the only slot and takes it again, twice. It is refused only if the other racer has got the slot.
	"SlotFreed": search(plain, plain, func(s *scene) {
		timer := s.timer
		s.limited(1)
		require.True(s, timer.limit.acquire())
		refused, taken := false, false
		s.Go(func() {
			for n := 0; n < 2 && !refused; n++ {
				timer.limit.release()
				refused = !timer.limit.acquire()
			}
		})
		s.Go(func() { taken = timer.limit.acquire() })
		s.race(0)
		require.Equal(s, taken, refused)
	}),
	// After Stop, no order of two calls makes one of them find the limit exhausted.
	"SlotsAfterStop": search(plain, plain, func(s *scene) {
		s.limited(1)
		s.timer.Stop()
		for range 2 {
			a := s.act()
			s.Go(func() { a.arm(hour) })
		}
		s.race(0)
		st := s.timer.Stats()
		require.Zero(s, st.RejectedFull)
		require.EqualValues(s, 2, st.RejectedStopped)
	}),
	// A Reset that has taken the only slot keeps it until the timeout is pending, even if the worker changes the word meanwhile. So
	// if another goroutine is refused before the Reset, the Reset is not refused too.
	"SlotOfReset": search(timed, timed, func(s *scene) {
		a := s.ownKnown()
		s.limited(1)
		refused := make([]bool, 2)
		a.resets(hour)
		s.Go(func() {
			for i := range refused {
				b := &act{s: s}
				if b.arm(hour); b.err == nil {
					s.acts = append(s.acts, b)
				} else {
					require.ErrorIs(s, b.err, ErrTooManyPending)
					refused[i] = true
				}
			}
		})
		s.race(0)
		require.False(s, refused[0] && a.armed == 1, "the Reset had a slot, and lost it")
	}),
})
