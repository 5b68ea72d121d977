package deadlines

import (
	"sync"
	"time"
)

// A clock tells the time of the server, so that the clocks of the workers' machines do not matter. It
// never goes ahead of the server: each reading bounds the server's time from below and above, by the moments
// when the request was sent and the answer arrived. Between readings it follows the monotonic clock of this
// machine, at the lower bound.
type clock struct {
	wall func() time.Time // the wall clock of this machine: time.Now, except in tests

	mu    sync.Mutex
	mono  time.Time // a moment of this machine, with a monotonic reading
	lower time.Time // the earliest time that the server may have had then
}

// set takes a reading: the server's clock showed server at some moment from sent to received.
func (c *clock) set(server, sent, received time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	lower, upper := server, server.Add(received.Sub(sent))
	if old := c.lower.Add(received.Sub(c.mono)); !c.mono.IsZero() && old.After(lower) && !old.After(upper) {
		lower = old // the earlier reading is consistent with this one, and its answer came faster
	}
	c.mono, c.lower = received, lower.Round(0)
}

// now returns the time of the server, or a little less.
func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lower.Add(time.Since(c.mono))
}

// skew returns how far the wall clock of this machine is ahead of the server's. It is negative if it is
// behind.
func (c *clock) skew() time.Duration { return c.wall().Round(0).Sub(c.now()) }
