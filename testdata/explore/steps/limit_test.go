package hashedwheel

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Two racers take and free slots, each on its own stripe. The number of slots in use never exceeds the limit,
// and no slot is lost.

func TestStepsSlotsOne(t *testing.T) {
	search(t, plain.bounded(4).quickly(3), plain.bounded(4), func(s *scene) { s.raceForSlots(1, 1) })
}

func TestStepsSlotsTwo(t *testing.T) {
	search(t, plain.quickly(2), plain, func(s *scene) { s.raceForSlots(2, 2) })
}

// raceForSlots lets each of two racers take the given number of slots, and free them, twice.
func (s *scene) raceForSlots(limit, each int) {
	timer := s.timer
	s.twoStripes()
	timer.limit.set(limit, 2)
	held, most := 0, 0
	for i := range timer.queue.stripes {
		on := &timer.queue.stripes[i]
		s.Go(func() {
			for range 2 {
				mine := 0
				for range each {
					if timer.takeSlot(on) {
						mine++
						held++
						most = max(most, held)
					}
				}
				timer.IsStopped() // a gate: here the other racer may go on
				held -= mine
				for range mine {
					timer.freeSlot(on)
				}
			}
		})
	}
	s.race(0)
	require.Equal(s, limit, most)
	free := timer.limit.reserve.Load()
	for i := range timer.queue.stripes {
		free += timer.queue.stripes[i].slots.Load()
	}
	require.EqualValues(s, limit, free)
}
