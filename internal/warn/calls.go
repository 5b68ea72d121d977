package warn

import (
	"time"

	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

// Calls looks once a minute at the calls of user code that are in progress: tasks, Next, Canceled, the panic handler and submit.
// A call is long when a look finds it that an earlier one has found too, a minute ago or more. So a call that returns soon costs nothing.
// There are two reasons for a warning:
//
//   - More and more calls are long: at least manyLong, in growths looks there were more than before, and few ended. A program whose
//     tasks are long by design has as many after a while, so there is no warning.
//   - A call is long that should not be: a Next, a Canceled, a panic handler, or a task for which a WaitRunning waits. Then there is
//     a warning whenever there are more than there have been.
//
// A look comes with a round that comes anyway. If none comes within a minute, and a call is in progress that should not be long, or the
// run of a Schedule, whose Next comes then, the worker wakes up for one more look. The zero value is ready for use.
type Calls struct {
	next   time.Duration // the time of the next look; 0 if there is no need
	askAt  time.Duration // Asks does not ask before this
	lastAt time.Duration // when the last look was
	last   Census        // what it has found
	growth int           // how many looks in a row have found more calls that are long than the one before
	stuck  int           // the most calls at once that should not be long, since there were none
}

// LongRun is how old a call is that counts as long.
const LongRun = time.Minute

const (
	manyLong = 10
	growths  = 5
	askEach  = 100 * time.Microsecond // some hundred times as long as to go through one call
)

// A Census is what a look has found.
type Census struct {
	young, long int // calls by their age; long is LongRun or more
	old         int // calls that were long at the look before
	stuck       int // calls that are long and should not be
	suspect     int // calls that are not long, and a wake-up is worth to find out whether they become long
}

// Add counts a call that a look has first found at a time. Brief is true if it should return soon, and asks if a call follows that
// should. Before is LastAt.
func (c *Census) Add(elapsed, before, since time.Duration, brief, asks bool) {
	if elapsed-since < LongRun {
		c.young++
		if brief || asks {
			c.suspect++
		}
		return
	}
	c.long++
	if since+LongRun <= before {
		c.old++
	}
	if brief {
		c.stuck++
	}
}

// LastAt returns the time of the last look.
func (c *Calls) LastAt() time.Duration { return c.lastAt }

// Due is called at the end of a round, and reports whether to look now. Busy says that tasks may have been started, or timeouts
// canceled.
func (c *Calls) Due(elapsed time.Duration, busy bool) bool {
	if c.next == 0 && busy {
		c.next = ticks.Later(elapsed, LongRun)
		return false
	}
	return c.next > 0 && elapsed >= c.next
}

// Look is called with what a look has found, and reports whether to warn.
func (c *Calls) Look(elapsed time.Duration, found Census) (warn bool) {
	switch more, ended := found.long-found.old, c.last.long-found.old; {
	case more > 2*ended:
		c.growth++
	case more > 0 || ended > 0:
		c.growth = 0
	}
	more := found.stuck > c.stuck
	if c.stuck = max(c.stuck, found.stuck); found.stuck == 0 {
		c.stuck = 0
	}
	warn = more || c.growth >= growths && found.long > c.last.long && found.long >= manyLong
	c.lastAt, c.last, c.next = elapsed, found, 0
	if found.young > 0 {
		c.next = ticks.Later(elapsed, LongRun)
	}
	return warn
}

// Asks reports whether Plan needs a census. The next round is planned for a time that may be far off. If Asks returns false, the round
// must come at until.
func (c *Calls) Asks(elapsed, planned time.Duration) (until time.Duration, asks bool) {
	switch {
	case c.next == 0 || planned <= c.next:
		return planned, false
	case elapsed < c.askAt:
		return min(planned, c.askAt), false
	}
	return planned, true
}

// Plan returns the time at which the next round must come.
func (c *Calls) Plan(elapsed, planned time.Duration, found Census) (until time.Duration) {
	c.askAt = elapsed + time.Duration(found.young+found.long)*askEach
	if found.suspect > 0 {
		c.next = ticks.Later(elapsed, LongRun)
		return min(planned, c.next)
	}
	return planned
}
