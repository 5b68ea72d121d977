package main

import (
	"net"
	"time"

	"github.com/hashedwheel/hashedwheel/idle"
)

// This file only measures how late connections are closed. Other servers do not
// need it.

// A stamped connection records when data arrived. It is below the limit, so its
// time is never later than the time from which the limit counts.
type stamped struct {
	net.Conn
	last   time.Time // when the last Read returned
	active time.Time // when data last arrived in time
}

// Read is called again only if the previous data came in time. If data comes too
// late, the limit returns an error with it, and the server stops reading.
func (c *stamped) Read(b []byte) (int, error) {
	c.active = c.last
	n, err := c.Conn.Read(b)
	c.last = time.Now()
	return n, err
}

// silentFor returns how long ago a connection under a limit was last active.
func silentFor(limited net.Conn) time.Duration {
	return time.Since(limited.(*idle.Conn).NetConn().(*stamped).active)
}

// A stamping listener accepts stamped connections.
type stamping struct{ net.Listener }

func (l stamping) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &stamped{Conn: conn, last: time.Now()}, nil
}
