package main

import (
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// A state is the state of a client.
type state int

const (
	talking   state = iota
	silent          // sends nothing and waits for the server to close it
	closed          // by the server
	forgotten       // silent for too long, and not closed by the server
	ended           // by the client, at the end of the run
)

// A client is one connection, and the timeouts that keep it alive.
type client struct {
	*clients
	conn      net.Conn
	heartbeat hashedwheel.Timeout  // its task is the client
	group     *hashedwheel.Group   // the other timeouts, which end with the client
	traffic   *hashedwheel.Timeout // runs talk, or nil
	chosen    bool                 // will fall silent

	mu        sync.Mutex // also held while writing
	state     state
	last      time.Time // the time just before the last packet was written
	overtaken bool      // the heartbeat was due, but another packet was written first
}

// newClient returns a client that has not been started.
func (cs *clients) newClient(conn net.Conn, began time.Time) *client {
	c := &client{clients: cs, conn: conn, group: hashedwheel.NewGroup(cs.timer), last: began}
	cs.timer.Init(&c.heartbeat, c)
	return c
}

// A heartbeat is due when nothing has been written for the interval, so each other
// packet moves its timeout. If a runner has already claimed the heartbeat, Move
// returns false. Then Run waits for mu, or is about to, and it need not send one.

// start arms the client's timeouts.
func (c *client) start(rng *rand.Rand) (err error) {
	c.mu.Lock() // the tasks wait until the fields are set
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

// write sends a frame. The caller holds mu.
func (c *client) write(frame []byte) {
	c.last = time.Now()
	if _, err := c.conn.Write(frame); err == nil {
		c.sent.Add(1)
	} // else the connection is lost, and read notices that
}

// fallSilent is the task after which the client sends nothing any more.
func (c *client) fallSilent() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != talking {
		return
	}
	c.state = silent
	c.fellSilent.Add(1)
	c.heartbeat.Cancel() // if it has started already, it sees the state
	if c.traffic != nil {
		c.traffic.Cancel()
	}
	_, err := c.group.AfterFunc(c.opts.limit+c.opts.tick+c.patience, c.forget)
	c.addError(err)
}

// forget is the task that ends the wait for the server to close the client.
func (c *client) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == silent {
		c.state = forgotten
		c.forgotten.Add(1)
		c.settled <- struct{}{}
	}
}

// read waits for the end of the connection. The server never sends data.
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

// hangUp ends the timeouts and the connection. The caller holds mu.
func (c *client) hangUp(s state) {
	c.state = s
	c.heartbeat.Cancel()
	c.group.Close()
	c.conn.Close()
}
