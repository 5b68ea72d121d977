package hashedwheel

import (
	"slices"
	"sync"
	"sync/atomic"
	"weak"
)

// A backlog has the timeouts that move back during a walk: see tasks.go. It keeps none of them alive.
type backlog struct {
	timeouts map[weak.Pointer[Timeout]]struct{}
}

// backlogs are those of the walks in progress.
type backlogs struct {
	walks atomic.Int32 // the length of all

	mu  sync.Mutex
	all []*backlog
}

// open adds a backlog for a walk that begins.
func (b *backlogs) open() *backlog {
	b.mu.Lock()
	defer b.mu.Unlock()
	opened := &backlog{make(map[weak.Pointer[Timeout]]struct{})}
	b.all = append(b.all, opened)
	b.walks.Add(1)
	return opened
}

// close removes the backlog of a walk, and returns the timeouts in it that are still alive.
func (b *backlogs) close(opened *backlog) (timeouts []*Timeout) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.all, opened)
	if i < 0 {
		return nil
	}
	b.all = slices.Delete(b.all, i, i+1)
	b.walks.Add(-1)
	for p := range opened.timeouts {
		if to := p.Value(); to != nil {
			timeouts = append(timeouts, to)
		}
	}
	return timeouts
}

// note adds a timeout to all backlogs. Called before the timeout moves to a place that walks visit before the one where
// it is now.
func (b *backlogs) note(to *Timeout) {
	if b.walks.Load() == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, log := range b.all {
		log.timeouts[weak.Make(to)] = struct{}{}
	}
}
