package warn

import (
	"time"

	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

// Calls finds out whether calls of user code that are in progress do not return. A call is long when a look finds it a minute
// or more after an earlier look has. So a call that returns soon costs nothing. There are two reasons for a warning:
//
//   - A call is long that should be brief: a Next, a Canceled, a panic handler, or a task for which a WaitRunning waits. Then
//     there is a warning, and another one when their number has grown, at most once a minute.
//   - More and more others are long. At least manyLong are, their number has grown at each of growths looks, and few ended.
//     A program whose tasks are long by design has as many after a while, so there is no warning.
//
// The zero value is ready for use.
type Calls struct {
	next time.Duration // when Due is next true; 0 until a task may have been started

	told   int           // how many calls that should be brief the last warning had; 0 if there have been none since
	toldAt time.Duration // when that was; 0 if there was none
	lastAt time.Duration // when Look last compared others with those before
	last   Census        // what it was told then
	growth int           // how many times in a row more of them were long than the time before
}

// LongRun is how old a call is that counts as long.
const LongRun = time.Minute

const (
	manyLong = 10
	growths  = 5
)

// A Census is what a look has found.
type Census struct {
	Stuck int // calls that are long and should be brief

	young     bool // a call that should be brief is not long yet
	long, old int  // others that are long, and those of them that Look has compared before
}

// Due is called at the end of a round, and reports whether to look now. If tasks may have been started, busy is true. The other
// methods may be called meanwhile.
func (c *Calls) Due(elapsed time.Duration, busy bool) bool {
	due := c.next > 0 && elapsed >= c.next
	if due || c.next == 0 && busy {
		c.next = ticks.Later(elapsed, LongRun)
	}
	return due
}

// Count counts a call, given when it was first found, and since when it should be brief, or 0 if it need not.
func (c *Calls) Count(found *Census, elapsed, since, brief time.Duration) {
	switch {
	case brief > 0 && elapsed-brief >= LongRun:
		found.Stuck++
	case brief > 0:
		found.young = true
	case elapsed-since >= LongRun:
		found.long++
		if since+LongRun <= c.lastAt {
			found.old++
		}
	}
}

// Look is called with what a look has found. It reports whether to warn of calls that should be brief, and whether to warn of
// more and more others. If again is true, another look must come in a minute even if no round does.
func (c *Calls) Look(elapsed time.Duration, found Census) (stuck, growing, again bool) {
	if found.Stuck == 0 {
		c.told = 0
	}
	more := found.Stuck > c.told
	if stuck = more && (c.toldAt == 0 || elapsed-c.toldAt >= warnEvery); stuck {
		c.told, c.toldAt = found.Stuck, elapsed
	}
	if c.lastAt == 0 || elapsed-c.lastAt >= LongRun {
		growing = c.grows(found)
		c.lastAt, c.last = elapsed, found
	}
	return stuck, growing, found.young || more && !stuck
}

// grows reports whether more and more calls are long.
func (c *Calls) grows(found Census) bool {
	switch more, ended := found.long-found.old, c.last.long-found.old; {
	case more > 2*ended:
		c.growth++
	case more > 0 || ended > 0:
		c.growth = 0
	}
	return c.growth >= growths && found.long > c.last.long && found.long >= manyLong
}
