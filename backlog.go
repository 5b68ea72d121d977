package hashedwheel

import (
	"slices"
	"sync"
	"sync/atomic"
	"weak"
)

// A backlog has the timeouts that move back during a walk: see tasks.go. It keeps none of them alive. When one is added, it
// looks at two others, and drops each of them that has ended. So it has about twice as many timeouts as are pending.
type backlog struct {
	timeouts []weak.Pointer[Timeout]
	known    map[weak.Pointer[Timeout]]struct{} // those in timeouts
	next     int                                // the index in timeouts of the one to check next
}

// note adds a pending timeout.
func (log *backlog) note(to *Timeout) {
	p := weak.Make(to)
	if _, ok := log.known[p]; ok {
		return
	}
	for range min(2, len(log.timeouts)) {
		last := len(log.timeouts) - 1
		if log.next > last {
			log.next = 0
		}
		at := &log.timeouts[log.next]
		if to := at.Value(); to != nil && status(to.word.Load()) == pending {
			log.next++
			continue
		}
		delete(log.known, *at)
		*at, log.timeouts = log.timeouts[last], log.timeouts[:last]
	}
	log.known[p] = struct{}{}
	log.timeouts = append(log.timeouts, p)
}

// backlogs has a backlog for each walk in progress.
type backlogs struct {
	walks atomic.Int32 // the length of all, to be read without the lock

	mu  sync.Mutex
	all []*backlog
}

// open adds a backlog for a walk that begins.
func (b *backlogs) open() *backlog {
	b.mu.Lock()
	defer b.mu.Unlock()
	opened := &backlog{known: make(map[weak.Pointer[Timeout]]struct{})}
	b.all = append(b.all, opened)
	b.walks.Add(1)
	return opened
}

// close removes the backlog of a walk, and returns the timeouts in it that have not been garbage collected. It returns nil
// if the backlog was removed before.
func (b *backlogs) close(opened *backlog) (timeouts []*Timeout) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.all, opened)
	if i < 0 {
		return nil
	}
	b.all = slices.Delete(b.all, i, i+1)
	b.walks.Add(-1)
	for _, p := range opened.timeouts {
		if to := p.Value(); to != nil {
			timeouts = append(timeouts, to)
		}
	}
	return timeouts
}

// note adds a timeout to all backlogs. Called when the timeout moves back, to a place that walks visit earlier than the
// one where it is.
func (b *backlogs) note(to *Timeout) {
	if b.walks.Load() == 0 { // a walk that begins after this misses the note: see tasks.go
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, log := range b.all {
		log.note(to)
	}
}
