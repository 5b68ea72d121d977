package main

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// A link is one connection with the calls that wait for a reply on it.
type link struct {
	*client
	conn *net.TCPConn
	out  *outbox
	lost chan struct{} // closed when no reply can come anymore

	mu      sync.Mutex
	pending map[uint64]*hashedwheel.Timeout // by request id
}

// A call lives from call, which arms its timeout, to whichever comes first:
// reply, which cancels the timeout, or expire, which is the timeout. They can
// meet, and Cancel alone decides: if it returns true, expire never starts; if
// it returns false, expire has the call and the reply is late.

// call sends request id and arms its timeout.
func (l *link) call(id uint64) error {
	// A timeout that fires at once finds its entry: expire waits for mu.
	l.mu.Lock()
	defer l.mu.Unlock()
	due := time.Now().Add(l.opts.timeout)
	timeout, err := l.timer.AfterFunc(l.opts.timeout, func() { l.expire(id, due) })
	if err != nil {
		return err
	}
	l.pending[id] = timeout
	l.stats.sent.Add(1)
	l.out.send(id, l.payload)
	return nil
}

// reply takes the reply to request id.
func (l *link) reply(id uint64) {
	if timeout := l.take(id); timeout == nil || !timeout.Cancel() {
		l.stats.late.Add(1)
		return
	}
	l.end(&l.stats.answered)
}

// expire is the timeout of request id, which was due at due.
func (l *link) expire(id uint64, due time.Time) {
	l.stats.addLateness(time.Since(due))
	l.take(id)
	l.end(&l.stats.timedOut)
}

// take removes request id from the pending ones. It returns nil if the
// request is not among them.
func (l *link) take(id uint64) *hashedwheel.Timeout {
	l.mu.Lock()
	defer l.mu.Unlock()
	timeout := l.pending[id]
	delete(l.pending, id)
	return timeout
}

// end counts a call as ended in one of the three ways.
func (c *client) end(way *atomic.Int64) {
	way.Add(1)
	c.freeSlot()
}

func (c *client) freeSlot() {
	select {
	case <-c.slots:
	default: // some call has ended twice, which the report will tell
	}
}

// abandon ends the calls that are still pending, except those whose timeout
// has started to run.
func (l *link) abandon() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, timeout := range l.pending {
		if timeout.Cancel() {
			delete(l.pending, id)
			l.end(&l.stats.abandoned)
		}
	}
}
