// Package wall keeps runs at the right time by the wall clock, when it is set and when the machine sleeps.
package wall

import (
	"sync"
	"time"

	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

// The wall clock and the ticks
//
// A timer counts monotonic time, which stands still while the machine sleeps, and which nobody sets. The shift is how
// far the wall clock has moved against it since New. When a run is planned for a time of the wall clock, its tick
// follows from the shift at that moment. When the shift has changed, the tick is wrong: too late after the clock was
// set forward or the machine has slept, and too early after the clock was set back.
//
//   - Once a minute, a Clock that has runs compares the present shift with the shifts that the runs assume. It only
//     keeps the least and the most of these, so a look costs the same for one run and for a million. If one of them is
//     wrong, it asks each run to follow. A slow drift adds up until it is noticed.
//   - A runner compares the wall clock with the time of the run before it starts the run. So a run is never early,
//     although the clock may have been set back since the last look.
const (
	// LookEvery is a second less than a minute. A usual tick and a busy machine add less than that, so a run is late by at
	// most a minute.
	LookEvery = time.Minute - time.Second

	// steady is how far the wall clock may differ from what a run assumes. The run may be late by as much, which nobody
	// notices at a time of the wall clock. With less, runs would follow mere noise: the wall clock of Windows has steps of up
	// to 16 ms, and NTP slews some clocks by 30 ms a minute.
	steady = 100 * time.Millisecond
)

// A Clock looks at the wall clock while it has runs. Its lock guards it, and its runs as their owner says.
type Clock struct {
	// Immutable once it is used.
	ticks *ticks.Clock
	look  func()               // calls Look
	Ahead func() time.Duration // by how much a test has set the wall clock forward; nil for nothing

	mu          sync.Mutex
	first       *Run          // a list of the runs
	alarm       *time.Timer   // calls look; nil if there are no runs
	least, most time.Duration // no run assumes a shift that is not between these; undefined if there are no runs
}

// A Run is a run that is planned for a time of the wall clock.
type Run struct {
	follower   Follower // immutable after Clock.Add
	assumed    time.Duration
	prev, next *Run
	added      bool
}

// A Follower moves a run to another tick.
type Follower interface {
	// Follow plans the run by the present time. It returns false if the run still assumes the shift that it has assumed
	// before. Called with the lock held.
	Follow(now Now) (ok bool)
}

// Now is the present time.
type Now struct {
	Wall    time.Time     // without a monotonic reading
	Elapsed time.Duration // since the start of the ticks
	Exact   time.Time     // as time.Now has returned it, with a monotonic reading
}

// New returns a clock without runs. Look is called once a minute while it has some, on a goroutine, and must call Look.
func New(clock *ticks.Clock, look func()) *Clock { return &Clock{ticks: clock, look: look} }

// Now reads both clocks at once. A goroutine that was preempted between two readings would take the wall clock for one
// that was set back. The caller must be on the clock's side of a synctest bubble.
func (c *Clock) Now() Now {
	now := time.Now()
	return Now{Wall: now.Round(0).Add(c.ahead()), Elapsed: max(now.Sub(c.ticks.Start), 0), Exact: now}
}

func (c *Clock) ahead() time.Duration {
	if c.Ahead == nil {
		return 0
	}
	return c.Ahead()
}

// shift returns how far the wall clock has moved against the ticks.
func (c *Clock) shift(now Now) time.Duration { return now.Wall.Sub(c.ticks.Start) - now.Elapsed }

// TimeOf returns the time of the wall clock at which a tick begins, if nobody sets the clock until then.
func (c *Clock) TimeOf(tick uint64, loc *time.Location) time.Time {
	return c.ticks.TimeOf(tick, loc).Round(0).Add(c.ahead())
}

// Lock locks the clock. It is held briefly, except while many runs follow a clock that was set.
func (c *Clock) Lock() { c.mu.Lock() }

// Unlock unlocks the clock.
func (c *Clock) Unlock() { c.mu.Unlock() }

// Add adds a run that was planned by now, if it is not there yet. Called with the lock held.
func (c *Clock) Add(r *Run, f Follower, now Now) {
	r.follower = f
	if c.first == nil {
		c.least, c.most = c.shift(now), c.shift(now)
		c.alarm = time.AfterFunc(LookEvery, c.look)
	}
	if !r.added {
		r.added, r.next = true, c.first
		if r.next != nil {
			r.next.prev = r
		}
		c.first = r
	}
	c.Planned(r, now)
}

// Planned records that a run was planned by now. Called with the lock held.
func (c *Clock) Planned(r *Run, now Now) {
	r.assumed = c.shift(now)
	c.widen(r)
}

func (c *Clock) widen(r *Run) { c.least, c.most = min(c.least, r.assumed), max(c.most, r.assumed) }

// Remove removes a run, if it is there. After the last run, the clock stops looking. Called with the lock held.
func (c *Clock) Remove(r *Run) {
	if !r.added {
		return
	}
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		c.first = r.next
	}
	if r.next != nil {
		r.next.prev = r.prev
	}
	r.added, r.prev, r.next = false, nil, nil
	if c.first == nil {
		c.alarm.Stop()
		c.alarm = nil
	}
}

// Looks reports whether the clock has runs, so that it looks once a minute.
func (c *Clock) Looks() bool {
	c.Lock()
	defer c.Unlock()
	return c.alarm != nil
}

// Look compares the shift with what the runs assume. If one of them is wrong, all runs follow.
func (c *Clock) Look() {
	c.Lock()
	defer c.Unlock()
	if c.first == nil {
		return // the last run was removed meanwhile
	}
	c.alarm.Reset(LookEvery)
	now := c.Now()
	shift := c.shift(now)
	if shift-c.least <= steady && c.most-shift <= steady {
		return
	}
	c.least, c.most = shift, shift
	for r := c.first; r != nil; r = r.next {
		if r.follower.Follow(now) {
			r.assumed = shift
		} else {
			c.widen(r)
		}
	}
}
