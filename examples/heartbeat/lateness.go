package main

import (
	"net"
	"time"

	"github.com/hashedwheel/hashedwheel/idle"
)

// This file only measures how late a connection is closed. A server that does
// not want to know needs none of it.

// A stamped connection notes when data arrived. It lies beneath the limit, so
// its time is never later than the one from which the limit counts.
type stamped struct {
	net.Conn
	last   time.Time // when the last Read returned
	active time.Time // when data last arrived in time
}

// Read is called again only if what came before was in time: data that comes
// too late is returned with an error, which ends the reading.
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
