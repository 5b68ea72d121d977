package main

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// A link is one connection, with the calls that wait for a reply on it.
type link struct {
	*client
	conn *net.TCPConn
	out  *outbox
	lost chan struct{} // closed when no reply can come anymore

	mu      sync.Mutex
	pending map[uint64]*call // by request id
}

// A call waits for the reply to a request. It holds its timeout and comes from
// a pool, so arming the timeout allocates nothing.
//
// The reply and the timeout can come at the same time. Then Cancel decides. If it
// returns true, the task of the timeout never starts. If it returns false, the
// timeout ends the call, and the reply is late. A call leaves pending before it
// goes back to the pool. So a call found in pending, with mu held, has not been
// reused.
type call struct {
	timeout hashedwheel.Timeout // the call is its task
	link    *link
	id      uint64
	due     time.Time
}

// newCall returns a new call for the pool.
func (c *client) newCall() any {
	made := new(call)
	c.timer.Init(&made.timeout, made)
	return made
}

// call sends request id and arms its timeout.
func (l *link) call(id uint64) error {
	c := l.calls.Get().(*call)
	c.link, c.id, c.due = l, id, time.Now().Add(l.opts.timeout)
	l.mu.Lock() // if the timeout fires at once, its task waits for mu
	defer l.mu.Unlock()
	if _, err := c.timeout.ResetAt(c.due); err != nil {
		return err
	}
	l.pending[id] = c
	l.stats.sent.Add(1)
	l.out.send(id, l.payload)
	return nil
}

// reply takes the reply to request id.
func (l *link) reply(id uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.pending[id]
	if c == nil || !c.timeout.Cancel() {
		l.stats.late.Add(1)
		return
	}
	l.end(c, &l.stats.answered)
}

// Run is the task of the timeout.
func (c *call) Run(*hashedwheel.Timeout) {
	l := c.link
	l.stats.addLateness(time.Since(c.due))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(c, &l.stats.timedOut)
}

// abandon ends the calls that are still pending, except those whose timeout has
// expired.
func (l *link) abandon() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.pending {
		if c.timeout.Cancel() {
			l.end(c, &l.stats.abandoned)
		}
	}
}

// end ends a call and counts it in way. The caller holds mu.
func (l *link) end(c *call, way *atomic.Int64) {
	delete(l.pending, c.id)
	l.calls.Put(c)
	way.Add(1)
	l.freeSlot()
}

func (c *client) freeSlot() {
	select {
	case <-c.slots:
	default: // a call has ended twice, which the report shows
	}
}
