// Package designs has timers of other designs than this library's, in plain Go after their originals. They are correct
// and not weakened. None fires early.
package designs

import (
	"sync"
	"time"
)

// A Heap is a binary heap of deadlines under one mutex. Its workers take due timeouts and run their tasks.
// One worker, the leader, sleeps until the next deadline. The others sleep until they are woken. A canceled
// timeout leaves the heap at once.
type Heap struct {
	start time.Time

	mu      sync.Mutex
	heap    []*heapEntry
	led     bool // a leader is sleeping
	stopped bool
	earlier chan struct{} // a token tells the leader that there is a new first deadline
	wake    chan struct{} // a token wakes one of the others
	done    chan struct{}
}

type heapEntry struct {
	deadline time.Duration // since start
	index    int           // in the heap; -1 if not there
	f        func()
}

// heapWorkers is the size of the pool.
const heapWorkers = 4

// NewHeap returns a timer without a tick.
func NewHeap() *Heap {
	t := &Heap{
		start:   time.Now(),
		earlier: make(chan struct{}, 1),
		wake:    make(chan struct{}, 1),
		done:    make(chan struct{}),
	}
	for range heapWorkers {
		go t.work()
	}
	return t
}

func (t *Heap) After(d time.Duration, f func()) any {
	e := &heapEntry{deadline: time.Since(t.start) + d, f: f}
	t.mu.Lock()
	defer t.mu.Unlock()
	e.index = len(t.heap)
	t.heap = append(t.heap, e)
	t.up(e.index)
	if e.index == 0 {
		t.call()
	}
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
	e.deadline, e.index = deadline, len(t.heap)
	t.heap = append(t.heap, e)
	t.up(e.index)
	if e.index == 0 {
		t.call()
	}
	return e
}

func (t *Heap) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.stopped {
		t.stopped, t.heap = true, nil
		close(t.done)
	}
}

// call wakes the leader, or another worker if there is no leader. One pending token is enough. The caller
// holds the mutex.
func (t *Heap) call() {
	wake := t.wake
	if t.led {
		wake = t.earlier
	}
	select {
	case wake <- struct{}{}:
	default:
	}
}

func (t *Heap) work() {
	sleep := time.NewTimer(time.Hour)
	defer sleep.Stop()
	for {
		f, wait, ok := t.next()
		switch {
		case !ok:
			return
		case f != nil:
			f()
		case wait > 0:
			sleep.Reset(wait)
			select {
			case <-sleep.C:
			case <-t.earlier:
			case <-t.done:
			}
			t.mu.Lock()
			t.led = false
			t.mu.Unlock()
		default:
			select {
			case <-t.wake:
			case <-t.done:
			}
		}
	}
}

// next returns the task of a due timeout. If none is due, wait is how long the caller sleeps as the leader, or
// zero if it is not the leader. After Stop, ok is false.
func (t *Heap) next() (f func(), wait time.Duration, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return nil, 0, false
	}
	if len(t.heap) == 0 {
		return nil, 0, true
	}
	e := t.heap[0]
	if wait = e.deadline - time.Since(t.start); wait <= 0 {
		t.remove(0)
		if len(t.heap) > 0 && !t.led {
			t.call() // another worker takes the next timeout while this one runs the task
		}
		return e.f, 0, true
	}
	if t.led {
		return nil, 0, true
	}
	t.led = true
	return nil, wait, true
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
