package pool

import (
	"math"
	"time"
)

// Walks
//
// A walk calls a function, without a lock, with the items of a pool, some at a time. EachListed and then EachTaken follow
// the way of the items: through the list by position, and then through the runners. So they find an item that a runner takes
// meanwhile, perhaps twice.

// EachListed calls f with all items that are on the list during the whole call, and perhaps with others. It returns false
// when f does.
func (p *Pool[T]) EachListed(f func(items []T) bool) bool {
	for at, end := p.bounds(); ; {
		items, next, more := p.listed(at, end)
		if !f(items) {
			return false
		}
		if !more {
			return true
		}
		at = next
	}
}

// EachTaken calls f with all items that runners have taken and whose runs are not over during the whole call, and perhaps with
// others. It returns false when f does.
func (p *Pool[T]) EachTaken(f func(items []T) bool) bool {
	var items []T
	return p.eachRunner(walked, func(rn *Runner[T]) {
		items = append(items, rn.item)
	}, func() bool {
		some := items
		items = nil
		return f(some)
	})
}

// A Run is a run of the task of an item that is in progress.
type Run[T comparable] struct {
	Item T
	Over <-chan struct{} // closed when the run is over, which includes Host.Ran
}

// Runs returns the runs that are in progress during the whole call, of the items that match, and perhaps others of these
// items. A run may appear twice. A run has the same channel in each call, and no other run has it. Runs calls match with the
// lock of the pool held.
func (p *Pool[T]) Runs(match func(item T) bool) (runs []Run[T]) {
	p.asking.Lock()
	defer p.asking.Unlock()
	p.eachRunner(walked, func(rn *Runner[T]) {
		if match(rn.item) {
			runs = append(runs, Run[T]{rn.item, rn.untilOver()})
		}
	}, func() bool { return true })
	return runs
}

// A Sight is a run that Look has found.
type Sight[T comparable] struct {
	Item    T
	Since   time.Duration // when Look first found the run
	Awaited time.Duration // when Look first found that a goroutine waits for its end, or did: see Runs; 0 if it has not
}

// Look calls f with the runs that are in progress during the whole call, and perhaps with others. A run may appear twice.
// The caller passes the time now by a clock of its own, and not 0. The time of a run counts from the first Look, so a task
// pays nothing for it.
func (p *Pool[T]) Look(now time.Duration, f func(Sight[T])) {
	var found []Sight[T]
	p.eachRunner(walked, func(rn *Runner[T]) {
		if rn.since == 0 {
			rn.since = now
		}
		if rn.over != nil && rn.awaited == 0 {
			rn.awaited = now
		}
		found = append(found, Sight[T]{rn.item, rn.since, rn.awaited})
	}, func() bool {
		for _, s := range found {
			f(s)
		}
		found = found[:0]
		return true
	})
}

// eachRunner calls visit, with mu held, for all runners that run tasks during the whole call, and perhaps for others. After
// some of them it calls pause, without mu. It returns false when pause does.
//
// It goes through the runners from the end. A runner that changes its place moves toward the beginning, so it is not missed.
func (p *Pool[T]) eachRunner(some int, visit func(rn *Runner[T]), pause func() (more bool)) bool {
	for end := math.MaxInt; end > 0; end -= some {
		p.mu.Lock()
		end = min(end, len(p.runners))
		for _, rn := range p.runners[max(end-some, 0):end] {
			visit(rn)
		}
		p.mu.Unlock()
		if !pause() {
			return false
		}
	}
	return true
}

const (
	walked       = 64 // runners visited at a time
	walkedChunks = 4  // chunks visited at a time
)

// listed returns the items of some chunks of the list, from a position on. If more is true, go on at next. Chunks that
// start at end or later were not there when the walk began.
func (p *Pool[T]) listed(at, end uint32) (items []T, next uint32, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := &p.list
	if l.n == 0 {
		return nil, 0, false
	}
	first := max(l.find(at), l.head)
	last := min(first+walkedChunks, len(l.chunks))
	for _, k := range l.chunks[first:last] {
		items = append(items, k.items[k.from:]...)
	}
	if last == len(l.chunks) {
		return items, 0, false
	}
	next = l.chunks[last].base
	return items, next, int32(next-end) < 0
}

// bounds returns where the list begins and ends.
func (p *Pool[T]) bounds() (begin, end uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.list.n == 0 {
		return 0, 0
	}
	return p.list.chunks[p.list.head].base, p.list.end()
}
