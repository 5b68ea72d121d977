package hashedwheel

import (
	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/explore"
)

// The alarm of calls that should be brief is armed while one is in progress, and no alarm of a minute is left when the last one has
// ended, whatever the order of the steps.

// briefly has a call in progress, which has been found in progress after a second. It ends while another racer begins calls. If stays is
// false, the last of them ends too.
func (s *scene) briefly(calls int, stays bool) {
	b := &s.timer.briefs
	b.begin()
	b.state.Store(off)
	b.arm(aMinute)
	s.Go(b.end)
	s.Go(func() {
		for i := range calls {
			b.begin()
			if !stays || i < calls-1 {
				b.end()
			}
		}
	})
	s.race(0)
	if stays {
		require.EqualValues(s, 1, b.n.Load())
		require.NotEqualValues(s, off, b.state.Load(), "a call is in progress, and no alarm is armed")
		b.end()
	}
	require.Zero(s, b.n.Load())
	require.NotEqualValues(s, aMinute, b.state.Load(), "the alarm is armed for a minute, and no call is in progress")
}

var _ = scenarios.Add(explore.Scenarios{
	"BriefBegins":     search(plain, plain, func(s *scene) { s.briefly(1, true) }),
	"BriefBeginsEnds": search(plain, plain, func(s *scene) { s.briefly(1, false) }),
	"BriefTwice":      search(plain.Quickly(3), plain, func(s *scene) { s.briefly(2, true) }),
	"BriefTwiceEnds":  search(plain.Quickly(3), plain, func(s *scene) { s.briefly(2, false) }),
})
