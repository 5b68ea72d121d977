package main

import (
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// What has become of a client.
type state int

const (
	talking   state = iota
	silent          // waits to be closed
	closed          // by the server
	forgotten       // by the server, which should have closed it
	ended           // by itself, with the run
)

// A client is one connection, and the timeouts that keep it alive.
type client struct {
	*clients
	conn      net.Conn
	heartbeat hashedwheel.Timeout  // its task is the client
	group     *hashedwheel.Group   // of the other timeouts, which end with the client
	traffic   *hashedwheel.Timeout // runs talk, or nil
	chosen    bool                 // to fall silent

	mu        sync.Mutex // also held to write
	state     state
	last      time.Time // before the last packet was written
	overtaken bool      // the heartbeat was due, and another packet came first
}

// newClient returns a client that has not been started.
func (cs *clients) newClient(conn net.Conn, began time.Time) *client {
	c := &client{clients: cs, conn: conn, group: hashedwheel.NewGroup(cs.timer), last: began}
	cs.timer.Init(&c.heartbeat, c)
	return c
}

// A heartbeat is due when nothing has been written for the interval: each other
// packet moves its timeout. A packet can meet a heartbeat that is due. Then Move
// returns false: Run has been started, waits for mu, and need not send anything.

// start arms the client's timeouts.
func (c *client) start(rng *rand.Rand) (err error) {
	c.mu.Lock() // their tasks wait until all is there
	defer c.mu.Unlock()
	if c.state != talking {
		return nil
	}
	if _, err = c.heartbeat.Reset(c.opts.interval); err != nil || c.opts.traffic == 0 {
		return err
	}
	c.traffic, err = c.group.Schedule(hashedwheel.TaskFunc(c.talk), poisson{c.opts.traffic, rng})
	return err
}

// Run is the task of the heartbeat.
func (c *client) Run(*hashedwheel.Timeout) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.state != talking:
		return
	case c.overtaken:
		c.overtaken = false
	default:
		if time.Since(c.last) < c.opts.interval {
			c.tooSoon.Add(1)
		}
		c.write(c.heartbeatFrame)
	}
	_, err := c.heartbeat.ResetAt(c.last.Add(c.opts.interval))
	c.addError(err)
}

// talk is the task of the other traffic.
func (c *client) talk(*hashedwheel.Timeout) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == talking {
		c.write(c.dataFrame)
		c.overtaken = !c.heartbeat.Move(c.opts.interval)
	}
}

// write sends a frame. Called with mu held.
func (c *client) write(frame []byte) {
	c.last = time.Now()
	if _, err := c.conn.Write(frame); err == nil {
		c.sent.Add(1)
	} // else the connection is lost, which read finds out
}

// fallSilent is the task that has the client send nothing any more.
func (c *client) fallSilent() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != talking {
		return
	}
	c.state = silent
	c.fellSilent.Add(1)
	c.heartbeat.Cancel() // or it has been started, and finds the state
	if c.traffic != nil {
		c.traffic.Cancel()
	}
	_, err := c.group.AfterFunc(c.opts.limit+c.opts.tick+c.patience, c.forget)
	c.addError(err)
}

// forget is the task of giving up the wait to be closed.
func (c *client) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == silent {
		c.state = forgotten
		c.forgotten.Add(1)
		c.settled <- struct{}{}
	}
}

// read waits for the end of the connection: the server sends nothing.
func (c *client) read() {
	buf := make([]byte, 1)
	for {
		if _, err := c.conn.Read(buf); err != nil {
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch c.state {
	case talking:
		c.closedOthers.Add(1)
	case silent:
		c.closedSilent.Add(1)
	default:
		return
	}
	if c.chosen {
		c.settled <- struct{}{}
	}
	c.hangUp(closed)
}

// end ends a client at the end of the run.
func (c *client) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == silent {
		c.stillOpen.Add(1)
	}
	if c.state != closed {
		c.hangUp(ended)
	}
}

// hangUp lets go of the timeouts and the connection. Called with mu held.
func (c *client) hangUp(s state) {
	c.state = s
	c.heartbeat.Cancel()
	c.group.Close()
	c.conn.Close()
}
