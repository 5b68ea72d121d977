// Package pace measures whether goroutines that count something pause.
package pace

import "time"

const (
	PauseTime    = 5 * time.Microsecond  // goroutines that count one in this time pause
	MaxUnwatched = 20 * time.Millisecond // the longest time between two measurements, if a tick is shorter
)

// A Pace is what was measured last. Its zero value is ready for use.
type Pace struct {
	At    time.Duration // the time of the last measurement
	Count uint64        // the count at that time
	Fast  time.Duration // for how long they have not paused; 0 if they pause
}

// Pause reports whether they pause. It measures once in a tick, or less often: see Interval.
func (p *Pace) Pause(now time.Duration, count uint64, tick time.Duration) bool {
	if spent := now - p.At; spent >= p.Interval(tick)*3/4 {
		if time.Duration(count-p.Count)*PauseTime > spent {
			p.Fast += spent
		} else {
			p.Fast = 0
		}
		p.At, p.Count = now, count
	}
	return p.Fast == 0
}

// Interval returns the time after which Pause should be called again: a tick. After they have not paused for long it may
// be longer, up to MaxUnwatched, so that a pause that is short beside that does not count.
func (p *Pace) Interval(tick time.Duration) time.Duration {
	return max(tick, min(p.Fast/4, MaxUnwatched))
}
