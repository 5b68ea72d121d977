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
	idle   hashedwheel.Timeout // its task is the peer

	mu   sync.Mutex
	last time.Time // when the last packet arrived
}

// newPeer returns a peer whose first packet is due in the limit.
func (s *server) newPeer(conn net.Conn) (*peer, error) {
	p := &peer{server: s, conn: conn, last: time.Now()}
	s.timer.Init(&p.idle, p)
	_, err := p.idle.Reset(s.limit)
	return p, err
}

// A packet and the end of the limit can meet. What Move answers decides, and
// nothing else does, least of all a look at the clock:
//
//   - true: the timeout was pending, and its task will not run for the deadline
//     that it had. The connection lives on, even if the packet came at the last
//     moment.
//   - false: the timeout has expired. Its task has been started, or is just about
//     to be, and the connection is lost, even if it still is open. The packet
//     came too late.

// arrived gives the connection another limit, since a packet has arrived at
// now. It reports whether the connection is alive.
func (p *peer) arrived(now time.Time) (alive bool) {
	// With mu held, so that Run never sees the time of a packet that came too
	// late, nor misses that of one that did not.
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.idle.Move(p.server.limit) {
		return false
	}
	p.last = now
	return true
}

// Run is the task: no packet has arrived for as long as the limit. It closes the
// connection, which ends its reader.
func (p *peer) Run(*hashedwheel.Timeout) {
	p.mu.Lock()
	late := time.Since(p.last) - p.server.limit
	p.mu.Unlock()
	s := p.server
	s.idle.Add(1)
	s.mu.Lock()
	s.lateness = append(s.lateness, late)
	s.mu.Unlock()
	p.conn.Close()
}
