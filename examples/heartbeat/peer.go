package main

import (
	"net"
	"sync"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// A peer is one connection as the server sees it.
type peer struct {
	server *server
	conn   net.Conn
	idle   *hashedwheel.Timeout // runs expire; used by the connection's reader only

	mu      sync.Mutex
	last    time.Time // when the last packet arrived
	expired bool
}

// A packet and the end of the limit can meet. What Reset answers in arrived
// decides, and nothing else does, least of all a look at the clock:
//
//   - active: the timeout was pending, and expire will not run for the deadline
//     that it had. The connection lives on, even if the packet came at the last
//     moment.
//   - not active: the timeout had expired. Expire has been started, or is just
//     about to be, and the connection is lost, even if it still is open. The
//     packet came too late.
//
// In the second case Reset has armed the timeout again. That has to be taken
// back, or it would run once more for a connection that is gone.

// arrived gives the connection another limit, since a packet has arrived at
// now. It reports whether the connection is alive.
func (p *peer) arrived(now time.Time) (alive bool, err error) {
	// With mu held, so that expire never sees the time of a packet that came
	// too late, nor misses that of one that did not.
	p.mu.Lock()
	defer p.mu.Unlock()
	alive, err = p.idle.Reset(p.server.limit)
	switch {
	case err != nil:
		return false, err
	case !alive:
		p.idle.Cancel()
		return false, nil
	}
	p.last = now
	return true, nil
}

// expire is the task: no packet has arrived for as long as the limit. It closes
// the connection, which ends its reader.
func (p *peer) expire() {
	p.mu.Lock()
	again := p.expired
	p.expired = true
	late := time.Since(p.last) - p.server.limit
	p.mu.Unlock()
	if again {
		return // arrived did not take back its Reset for as long as another limit
	}
	s := p.server
	s.idle.Add(1)
	s.mu.Lock()
	s.lateness = append(s.lateness, late)
	s.mu.Unlock()
	p.conn.Close()
}

func (p *peer) hasExpired() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.expired
}
