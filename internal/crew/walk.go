package crew

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
// A walk calls a function, without a lock, with the items of a crew, some at a time. It follows the way of the items: it
// goes through the list by position, and then through the batches and the slots that runners have taken. So it misses none
// that goes on meanwhile, and may meet one twice. What is taken back from a batch lands behind the walk, so takeBack tells
// Back of it.

const walkedRunners = 4 // so many are visited at a time, each of which may have chunkLen items

// Each calls f with all items that are in the crew during the whole call, and perhaps with others, but not with all of which
// Back is told meanwhile. It returns false when f does.
func (c *Crew[T]) Each(f func(items []T) bool) bool {
	for at, last := c.bounds(); ; {
		items, next, more := c.listed(at, last)
		if !f(items) {
			return false
		}
		if !more {
			break
		}
		at = next
	}
	rest := func(rn *Runner[T], taken int) []T { return rn.slots[max(taken-1, 0):rn.end()] }
	return c.eachRunner(walkedRunners, rest, f)
}

// EachTaken calls f with all items whose tasks are running during the whole call, and with others that are near that. It
// returns false when f does.
func (c *Crew[T]) EachTaken(f func(items []T) bool) bool {
	last := func(rn *Runner[T], taken int) []T { return rn.slots[max(taken-1, 0):taken] }
	return c.eachRunner(chunkLen, last, f)
}

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
	end := min(i+walkedRunners, len(l.chunks))
	for _, k := range l.chunks[i:end] {
		items = append(items, k.items[k.from:k.end]...)
	}
	if end == len(l.chunks) {
		return items, 0, false
	}
	next = l.chunks[end].start()
	return items, next, int32(next-last) < 0
}

// eachRunner calls f with what of returns for each runner, some of them at a time. It goes through live from the end: see
// RunsOfAll.
func (c *Crew[T]) eachRunner(some int, of func(rn *Runner[T], taken int) []T, f func(items []T) bool) bool {
	for end := -1; end != 0; end = max(end-some, 0) {
		var items []T
		items, end = c.ofRunners(end, some, of)
		if !f(items) {
			return false
		}
	}
	return true
}

// ofRunners returns what of returns for some runners before end, which is lower if there are fewer, and negative at first.
func (c *Crew[T]) ofRunners(end, some int, of func(rn *Runner[T], taken int) []T) (items []T, from int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if end < 0 || end > len(c.live) {
		end = len(c.live)
	}
	for _, rn := range c.live[max(end-some, 0):end] {
		items = append(items, of(rn, rn.takenOf())...)
	}
	return items, end
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

// tellBack tells Back of the items. Called with mu held.
func (c *Crew[T]) tellBack(items []T) {
	if c.Back == nil {
		return
	}
	var none T
	for _, item := range items {
		if item != none {
			c.Back(item)
		}
	}
}
