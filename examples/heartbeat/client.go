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

// A client is one connection, and the timeouts that keep it alive. They are a
// group, which ends with it.
type client struct {
	*clients
	conn      net.Conn
	group     *hashedwheel.Group
	heartbeat *hashedwheel.Timeout // runs beat
	traffic   *hashedwheel.Timeout // runs talk, or nil
	chosen    bool                 // to fall silent

	mu        sync.Mutex // also held to write
	state     state
	last      time.Time // before the last packet was written
	overtaken int       // runs of beat that other packets have overtaken
}

// A heartbeat is due when nothing has been written for the interval: each write
// resets its timeout. A write can meet a heartbeat that is due. Then Reset
// answers that the timeout was not active: beat has been started, waits for mu,
// and is not needed any more. For each such answer one run of beat does nothing.

// start arms the client's timeouts.
func (c *client) start(rng *rand.Rand) (err error) {
	c.mu.Lock() // their tasks wait until all is there
	defer c.mu.Unlock()
	if c.state != talking {
		return nil
	}
	if c.heartbeat, err = c.group.AfterFunc(c.opts.interval, c.beat); err != nil || c.opts.traffic == 0 {
		return err
	}
	c.traffic, err = c.group.Schedule(hashedwheel.TaskFunc(c.talk), poisson{c.opts.traffic, rng})
	return err
}

// beat is the task of the heartbeat.
func (c *client) beat() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.overtaken > 0 {
		c.overtaken--
		return
	}
	if c.state != talking {
		return
	}
	if time.Since(c.last) < c.opts.interval {
		c.tooSoon.Add(1)
	}
	c.write(c.heartbeatFrame) // the timeout has expired by being here
}

// talk is the task of the other traffic.
func (c *client) talk(*hashedwheel.Timeout) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == talking && !c.write(c.dataFrame) {
		c.overtaken++
	}
}

// write sends a frame and has the next heartbeat wait for another interval. It
// reports whether that was still pending. Called with mu held.
func (c *client) write(frame []byte) (active bool) {
	c.last = time.Now()
	if _, err := c.conn.Write(frame); err == nil {
		c.sent.Add(1)
	} // else the connection is lost, which read finds out
	active, err := c.heartbeat.Reset(c.opts.interval)
	c.addError(err)
	return active
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
	c.group.Close()
	c.conn.Close()
}
