package crew

import "math"

// Due returns the number of items that wait for a runner: on the list, and in batches.
func (c *Crew[T]) Due() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n = c.due.n
	var none T
	for _, rn := range c.batched {
		for _, item := range rn.slots[rn.takenOf():rn.end()] {
			if item != none {
				n++
			}
		}
	}
	return n
}

// Walks
//
// A walk calls a function, without a lock, with the items of a crew, some at a time. EachListed and then EachTaken follow
// the way of the items: through the list by position, and then through the slots of the runners. So they miss none that
// goes on meanwhile, and may meet one twice. What is taken back from a batch lands behind the walk, so takeBack tells
// Host.Back of it.

// EachListed calls f with all items that are on the list during the whole call, and perhaps with others. It returns false
// when f does.
func (c *Crew[T]) EachListed(f func(items []T) bool) bool {
	for at, last := c.bounds(); ; {
		items, next, more := c.listed(at, last)
		if !f(items) {
			return false
		}
		if !more {
			return true
		}
		at = next
	}
}

// EachTaken calls f with all items that are in batches, or whose tasks are running, during the whole call, and perhaps
// with others, but not with all of which Host.Back is told meanwhile. It returns false when f does.
func (c *Crew[T]) EachTaken(f func(items []T) bool) bool {
	var items []T
	return c.eachRunner(walked, func(rn *Runner[T]) {
		items = append(items, rn.slots[max(rn.takenOf()-1, 0):rn.end()]...)
	}, func() bool {
		some := items
		items = nil
		return f(some)
	})
}

// eachRunner calls visit for all runners that run tasks during the whole call, and perhaps for others: for some at a time,
// with mu held. After each time it calls pause, without mu, and returns false when pause does.
//
// It goes through the runners from the end, because one that gets another place gets one before it. So it misses none.
func (c *Crew[T]) eachRunner(some int, visit func(rn *Runner[T]), pause func() (more bool)) bool {
	for end := math.MaxInt; end > 0; end -= some {
		c.mu.Lock()
		end = min(end, c.live)
		for _, rn := range c.runners[max(end-some, 0):end] {
			visit(rn)
		}
		c.mu.Unlock()
		if !pause() {
			return false
		}
	}
	return true
}

const walked = 4 // so many chunks, or runners with a batch each, are visited at a time

// listed returns the items of some chunks of the list, from a position on. If more is true, go on at next. Chunks that
// start at last or later were not there when the walk began.
func (c *Crew[T]) listed(at, last uint32) (items []T, next uint32, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := &c.due
	if l.n == 0 {
		return nil, 0, false
	}
	i := max(l.find(at), l.head) // a chunk may have been merged with the one before
	end := min(i+walked, len(l.chunks))
	for _, k := range l.chunks[i:end] {
		items = append(items, k.items[k.from:k.end]...)
	}
	if end == len(l.chunks) {
		return items, 0, false
	}
	next = l.chunks[end].start()
	return items, next, int32(next-last) < 0
}

// bounds returns where the list begins and ends.
func (c *Crew[T]) bounds() (first, last uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.due.n == 0 {
		return 0, 0
	}
	k := c.due.last()
	return c.due.chunks[c.due.head].start(), k.base + uint32(k.end)
}
