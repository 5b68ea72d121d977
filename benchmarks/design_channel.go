package main

import (
	"sync/atomic"
	"time"
)

// channelDesign is a wheel that belongs to one goroutine. The goroutine receives all operations from a channel,
// and finds a timeout by its key in a map. It starts a goroutine for each task. It computes the number of ticks
// that are over from the clock, because a Ticker drops ticks.
type channelDesign struct {
	start time.Time
	tick  time.Duration
	keys  atomic.Uint64
	ops   chan channelOp
	done  chan struct{}

	// Owned by the goroutine.
	now     uint64 // ticks that are over
	buckets [wheelSize]channelEntry
	byKey   map[uint64]*channelEntry
}

type channelOp struct {
	key  uint64
	due  uint64 // tick at which it fires; 0 to cancel
	f    func()
	move bool
}

// A channelEntry is in the ring of its bucket. The entry of the bucket itself is the head.
type channelEntry struct {
	next, prev *channelEntry
	key        uint64
	rounds     uint64
	f          func()
}

func newChannelDesign(o options) timer {
	t := &channelDesign{
		start: time.Now(),
		tick:  o.tick,
		ops:   make(chan channelOp, 1024),
		done:  make(chan struct{}),
		byKey: map[uint64]*channelEntry{},
	}
	for i := range t.buckets {
		head := &t.buckets[i]
		head.next, head.prev = head, head
	}
	go t.work()
	return t
}

// due returns the first tick boundary at or after the deadline.
func (t *channelDesign) due(d time.Duration) uint64 {
	return uint64((time.Since(t.start) + d + t.tick - 1) / t.tick)
}

func (t *channelDesign) After(d time.Duration, f func()) handle {
	key := t.keys.Add(1)
	t.send(channelOp{key: key, due: t.due(d), f: f})
	return key
}

// Cancel always returns true, because the worker cancels the timeout later.
func (t *channelDesign) Cancel(h handle) bool {
	t.send(channelOp{key: h.(uint64)})
	return true
}

func (t *channelDesign) Reset(h handle, d time.Duration, f func()) handle {
	t.send(channelOp{key: h.(uint64), due: t.due(d), f: f, move: true})
	return h
}

// send gives up after Stop, when no goroutine receives.
func (t *channelDesign) send(op channelOp) {
	select {
	case t.ops <- op:
	case <-t.done:
	}
}

func (t *channelDesign) Stop() { close(t.done) }

func (t *channelDesign) work() {
	ticker := time.NewTicker(t.tick)
	defer ticker.Stop()
	for {
		select {
		case op := <-t.ops:
			t.apply(op)
		case <-ticker.C:
			for over := uint64(time.Since(t.start) / t.tick); t.now < over; {
				t.turn()
			}
		case <-t.done:
			return
		}
	}
}

func (t *channelDesign) apply(op channelOp) {
	e := t.byKey[op.key]
	if op.due == 0 || op.move {
		if e == nil {
			return
		}
		e.unlink()
	}
	switch {
	case op.due == 0:
		delete(t.byKey, op.key)
		return
	case !op.move:
		e = &channelEntry{key: op.key, f: op.f}
		t.byKey[op.key] = e
	}
	due := max(op.due, t.now+1)
	e.rounds = (due - t.now - 1) / wheelSize
	head := &t.buckets[due%wheelSize]
	e.next, e.prev = head, head.prev
	e.prev.next, head.prev = e, e
}

func (t *channelDesign) turn() {
	t.now++
	head := &t.buckets[t.now%wheelSize]
	for e := head.next; e != head; {
		next := e.next
		if e.rounds == 0 {
			e.unlink()
			delete(t.byKey, e.key)
			go e.f()
		} else {
			e.rounds--
		}
		e = next
	}
}

func (e *channelEntry) unlink() {
	e.prev.next, e.next.prev = e.next, e.prev
	e.next, e.prev = nil, nil
}
