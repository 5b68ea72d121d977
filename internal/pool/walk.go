package pool

// Due returns the number of items that wait for a runner: on the list, and in batches.
func (p *Pool[T]) Due() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n = p.due.n
	var none T
	for _, rn := range p.batched {
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
// A walk calls a function, without a lock, with the items of a pool, some at a time. It follows the way of the items: it
// goes through the list by position, and then through the batches and the slots that runners have taken. So it misses none
// that goes on meanwhile, and may meet one twice. What is taken back from a batch lands behind the walk, so takeBack tells
// Back of it.

const walkedRunners = 4 // so many are visited at a time, each of which may have chunkLen items

// Each calls f with all items that are in the pool during the whole call, and perhaps with others, but not with all of which
// Back is told meanwhile. It returns false when f does.
func (p *Pool[T]) Each(f func(items []T) bool) bool {
	for at, last := p.bounds(); ; {
		items, next, more := p.listed(at, last)
		if !f(items) {
			return false
		}
		if !more {
			break
		}
		at = next
	}
	rest := func(rn *Runner[T], taken int) []T { return rn.slots[max(taken-1, 0):rn.end()] }
	return p.eachRunner(walkedRunners, rest, f)
}

// EachTaken calls f with all items whose tasks are running during the whole call, and with others that are near that. It
// returns false when f does.
func (p *Pool[T]) EachTaken(f func(items []T) bool) bool {
	last := func(rn *Runner[T], taken int) []T { return rn.slots[max(taken-1, 0):taken] }
	return p.eachRunner(chunkLen, last, f)
}

// listed returns the items of some chunks of the list, from a position on. If more is true, go on at next. Chunks that
// start at last or later were not there when the walk began.
func (p *Pool[T]) listed(at, last uint32) (items []T, next uint32, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := &p.due
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
func (p *Pool[T]) eachRunner(some int, of func(rn *Runner[T], taken int) []T, f func(items []T) bool) bool {
	for end := -1; end != 0; end = max(end-some, 0) {
		var items []T
		items, end = p.ofRunners(end, some, of)
		if !f(items) {
			return false
		}
	}
	return true
}

// ofRunners returns what of returns for some runners before end, which is lower if there are fewer, and negative at first.
func (p *Pool[T]) ofRunners(end, some int, of func(rn *Runner[T], taken int) []T) (items []T, from int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if end < 0 || end > len(p.live) {
		end = len(p.live)
	}
	for _, rn := range p.live[max(end-some, 0):end] {
		items = append(items, of(rn, rn.takenOf())...)
	}
	return items, end
}

// bounds returns where the list begins and ends.
func (p *Pool[T]) bounds() (first, last uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.due.n == 0 {
		return 0, 0
	}
	k := p.due.last()
	return p.due.chunks[p.due.head].start(), k.base + uint32(k.end)
}

// tellBack tells Back of the items. Called with mu held.
func (p *Pool[T]) tellBack(items []T) {
	if p.Back == nil {
		return
	}
	var none T
	for _, item := range items {
		if item != none {
			p.Back(item)
		}
	}
}
