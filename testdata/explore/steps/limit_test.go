package hashedwheel

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Two take slots and leave them, each on a stripe of its own. There are never more than the limit says, and
// none is lost.

func TestStepsSlotsOne(t *testing.T) {
	search(t, plain.bounded(4).quickly(3), plain.bounded(4), func(s *scene) { s.raceForSlots(1, 1) })
}

func TestStepsSlotsTwo(t *testing.T) {
	search(t, plain.quickly(2), plain, func(s *scene) { s.raceForSlots(2, 2) })
}

// raceForSlots has each racer take so many slots at once, twice.
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
				timer.IsStopped() // the others' steps may come here
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
