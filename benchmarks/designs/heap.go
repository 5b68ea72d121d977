// Package designs has timers of other designs than this library's, in plain Go after their originals. They are correct
// and not weakened. None fires early.
package designs

import (
	"sync"
	"time"
)

// A Heap is a binary heap of deadlines under one mutex. One worker takes due timeouts and runs their tasks. A canceled
// timeout leaves the heap at once.
type Heap struct {
	start   time.Time
	earlier chan struct{} // a token tells the worker that there is a new first deadline

	mu   sync.Mutex
	heap []*heapEntry
}

type heapEntry struct {
	deadline time.Duration // since start
	index    int           // in the heap; -1 if not there
	f        func()
}

// NewHeap returns a timer without a tick.
func NewHeap() *Heap {
	t := &Heap{start: time.Now(), earlier: make(chan struct{}, 1)}
	go t.work()
	return t
}

func (t *Heap) After(d time.Duration, f func()) any {
	e := &heapEntry{deadline: time.Since(t.start) + d, f: f}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(e)
	return e
}

func (t *Heap) Cancel(h any) bool {
	e := h.(*heapEntry)
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.index < 0 {
		return false
	}
	t.remove(e.index)
	return true
}

func (t *Heap) Reset(h any, d time.Duration, _ func()) any {
	e := h.(*heapEntry)
	deadline := time.Since(t.start) + d
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.index >= 0 {
		t.remove(e.index)
	}
	e.deadline = deadline
	t.add(e)
	return e
}

// work does not end, because a run of a cell has one timer and ends with its process.
func (t *Heap) work() {
	sleep := time.NewTimer(time.Hour)
	for {
		f, wait := t.next()
		if f != nil {
			f()
			continue
		}
		sleep.Reset(wait)
		select {
		case <-sleep.C:
		case <-t.earlier:
		}
	}
}

// next returns the task of a due timeout, or how long to sleep if none is due.
func (t *Heap) next() (f func(), wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.heap) == 0 {
		return nil, time.Hour
	}
	e := t.heap[0]
	if wait = e.deadline - time.Since(t.start); wait > 0 {
		return nil, wait
	}
	t.remove(0)
	return e.f, 0
}

// add wakes the worker if the timeout is the first. One pending token is enough. The caller holds the mutex.
func (t *Heap) add(e *heapEntry) {
	e.index = len(t.heap)
	t.heap = append(t.heap, e)
	t.up(e.index)
	if e.index == 0 {
		select {
		case t.earlier <- struct{}{}:
		default:
		}
	}
}

func (t *Heap) remove(i int) {
	last := len(t.heap) - 1
	t.heap[i].index = -1
	moved := t.heap[last]
	t.heap[last] = nil
	t.heap = t.heap[:last]
	if i < last {
		t.heap[i], moved.index = moved, i
		t.up(i)
		t.down(moved.index)
	}
}

func (t *Heap) up(i int) {
	e := t.heap[i]
	for i > 0 {
		parent := (i - 1) / 2
		if t.heap[parent].deadline <= e.deadline {
			break
		}
		t.heap[i] = t.heap[parent]
		t.heap[i].index = i
		i = parent
	}
	t.heap[i], e.index = e, i
}

func (t *Heap) down(i int) {
	e := t.heap[i]
	for {
		child := 2*i + 1
		if child >= len(t.heap) {
			break
		}
		if child+1 < len(t.heap) && t.heap[child+1].deadline < t.heap[child].deadline {
			child++
		}
		if e.deadline <= t.heap[child].deadline {
			break
		}
		t.heap[i] = t.heap[child]
		t.heap[i].index = i
		i = child
	}
	t.heap[i], e.index = e, i
}
