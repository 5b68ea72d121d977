package pool

import "math"

// Due returns the number of items that wait for a runner: on the list, and in batches.
func (p *Pool[T]) Due() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n = p.list.n
	var none T
	for _, rn := range p.batched {
		for _, item := range rn.entries[rn.takenOf():] {
			if item != none {
				n++
			}
		}
	}
	return n
}

// Walks
//
// A walk calls a function, without a lock, with the items of a pool, some at a time. EachListed and then EachTaken follow
// the way of the items: through the list by position, and then through the entries of the runners. So they do not miss an
// item that a runner takes off the list meanwhile, and they may meet an item twice. An item that is taken back from a batch
// may land where the walk has been. TakenBack says whether one was.

// TakenBack returns how many batches were taken back from runners. Runners take what was taken back one by one, so no item
// is taken back twice.
func (p *Pool[T]) TakenBack() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.takenBack
}

// EachListed calls f with all items that are on the list during the whole call, and perhaps with others. It returns false
// when f does.
func (p *Pool[T]) EachListed(f func(items []T) bool) bool {
	for at, last := p.bounds(); ; {
		items, next, more := p.listed(at, last)
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
// with others. It returns false when f does.
func (p *Pool[T]) EachTaken(f func(items []T) bool) bool {
	var items []T
	return p.eachRunner(walked, func(rn *Runner[T]) {
		items = append(items, rn.entries[max(rn.takenOf()-1, 0):]...)
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

// Runs returns the runs that are in progress during the whole call, and perhaps others. One may be there twice. A run has the
// same channel in each call, and no other run has it. All batches are taken back, as by RunsOfAll.
func (p *Pool[T]) Runs() (runs []Run[T]) {
	p.asking.Lock()
	defer p.asking.Unlock()
	p.eachRunner(64, func(rn *Runner[T]) {
		var run Run[T]
		if run.Over = rn.untilOver(func(item T) bool { run.Item = item; return true }); run.Over != nil {
			runs = append(runs, run)
		}
	}, func() bool { return true })
	return runs
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

const walked = 4 // so many chunks, or runners with a batch each, are visited at a time

// listed returns the items of some chunks of the list, from a position on. If more is true, go on at next. Chunks that
// start at last or later were not there when the walk began.
func (p *Pool[T]) listed(at, last uint32) (items []T, next uint32, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := &p.list
	if l.n == 0 {
		return nil, 0, false
	}
	i := max(l.find(at), l.head)
	end := min(i+walked, len(l.chunks))
	for _, k := range l.chunks[i:end] {
		items = append(items, k.items[k.from:]...)
	}
	if end == len(l.chunks) {
		return items, 0, false
	}
	next = l.chunks[end].start()
	return items, next, int32(next-last) < 0
}

// bounds returns where the list begins and ends.
func (p *Pool[T]) bounds() (first, last uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.list.n == 0 {
		return 0, 0
	}
	k := p.list.last()
	return p.list.chunks[p.list.head].start(), k.base + uint32(len(k.items))
}
