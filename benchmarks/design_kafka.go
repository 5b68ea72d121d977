package main

import (
	"container/heap"
	"sync"
	"sync/atomic"
	"time"
)

// kafkaDesign does what Kafka's SystemTimer does. It is a hierarchy of wheels whose buckets have a lock each,
// and a delay queue of the buckets that are not empty. One goroutine waits for the first bucket and advances the
// clock. It moves the entries of the bucket to finer wheels, and starts a goroutine for each due task.
// Deadlines are rounded up to ticks, so that no bucket is early.
type kafkaDesign struct {
	start time.Time
	clock sync.RWMutex // locked for reading to add an entry, and for writing to advance the clock
	wheel *kafkaWheel
	done  chan struct{}

	mu    sync.Mutex // guards the delay queue
	queue kafkaQueue
	wake  chan struct{} // a token means that there is a new first bucket
}

type kafkaWheel struct {
	tick     time.Duration
	now      time.Duration // a multiple of tick, since start
	buckets  [wheelSize]kafkaBucket
	overflow atomic.Pointer[kafkaWheel] // the next coarser wheel, made when needed
	making   sync.Mutex
}

type kafkaBucket struct {
	mu   sync.Mutex
	head *kafkaEntry
	due  atomic.Int64 // -1 or 0 if the bucket is not in the delay queue
}

type kafkaEntry struct {
	deadline   time.Duration
	f          func()
	ended      atomic.Bool // expired or canceled
	bucket     atomic.Pointer[kafkaBucket]
	next, prev *kafkaEntry // guarded by the lock of the bucket
}

func newKafkaDesign(o options) timer {
	t := &kafkaDesign{
		start: time.Now(),
		wheel: &kafkaWheel{tick: o.tick},
		wake:  make(chan struct{}, 1),
		done:  make(chan struct{}),
	}
	go t.work()
	return t
}

func (t *kafkaDesign) After(d time.Duration, f func()) handle {
	tick := t.wheel.tick
	e := &kafkaEntry{deadline: (time.Since(t.start) + d + tick - 1) / tick * tick, f: f}
	t.clock.RLock()
	defer t.clock.RUnlock()
	t.add(e)
	return e
}

func (t *kafkaDesign) Cancel(h handle) bool {
	e := h.(*kafkaEntry)
	if !e.ended.CompareAndSwap(false, true) {
		return false
	}
	for b := e.bucket.Load(); b != nil; b = e.bucket.Load() {
		b.mu.Lock()
		if e.bucket.Load() == b {
			b.unlink(e)
		}
		b.mu.Unlock()
	}
	return true
}

func (t *kafkaDesign) Reset(h handle, d time.Duration, f func()) handle {
	t.Cancel(h)
	return t.After(d, f)
}

func (t *kafkaDesign) Stop() { close(t.done) }

// add puts an entry on the finest wheel that reaches its deadline. The caller holds the clock's lock.
func (t *kafkaDesign) add(e *kafkaEntry) {
	w := t.wheel
	if e.deadline < w.now+w.tick {
		if e.ended.CompareAndSwap(false, true) {
			go e.f()
		}
		return
	}
	for e.deadline >= w.now+wheelSize*w.tick {
		w = w.coarser()
	}
	b := &w.buckets[e.deadline/w.tick%wheelSize]
	b.mu.Lock()
	if !e.ended.Load() {
		b.link(e)
	}
	b.mu.Unlock()
	if due := int64(e.deadline / w.tick * w.tick); b.due.Swap(due) != due {
		t.offer(b, due)
	}
}

// coarser returns the next wheel. Each of its buckets covers a turn of this wheel.
func (w *kafkaWheel) coarser() *kafkaWheel {
	if o := w.overflow.Load(); o != nil {
		return o
	}
	w.making.Lock()
	defer w.making.Unlock()
	if o := w.overflow.Load(); o != nil {
		return o
	}
	tick := w.tick * wheelSize
	o := &kafkaWheel{tick: tick, now: w.now / tick * tick}
	w.overflow.Store(o)
	return o
}

func (t *kafkaDesign) offer(b *kafkaBucket, due int64) {
	t.mu.Lock()
	heap.Push(&t.queue, kafkaDue{due, b})
	first := t.queue[0].bucket == b
	t.mu.Unlock()
	if first {
		select {
		case t.wake <- struct{}{}:
		default:
		}
	}
}

// poll returns the first bucket if it is due, or else how long to wait for it.
func (t *kafkaDesign) poll() (b *kafkaBucket, due, wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) == 0 {
		return nil, 0, time.Hour
	}
	due = time.Duration(t.queue[0].due)
	if wait = due - time.Since(t.start); wait > 0 {
		return nil, 0, wait
	}
	return heap.Pop(&t.queue).(kafkaDue).bucket, due, 0
}

func (t *kafkaDesign) work() {
	sleep := time.NewTimer(time.Hour)
	defer sleep.Stop()
	for {
		b, due, wait := t.poll()
		if b != nil {
			t.clock.Lock()
			for w := t.wheel; w != nil; w = w.overflow.Load() {
				w.now = max(w.now, due/w.tick*w.tick)
			}
			for e := b.clear(); e != nil; {
				next := e.next
				e.next, e.prev = nil, nil
				t.add(e)
				e = next
			}
			t.clock.Unlock()
			wait = 0
		} else {
			sleep.Reset(wait)
		}
		select {
		case <-t.done:
			return
		default:
		}
		if wait > 0 {
			select {
			case <-sleep.C:
			case <-t.wake:
			case <-t.done:
				return
			}
		}
	}
}

func (b *kafkaBucket) link(e *kafkaEntry) {
	e.next, e.prev = b.head, nil
	if b.head != nil {
		b.head.prev = e
	}
	b.head = e
	e.bucket.Store(b)
}

func (b *kafkaBucket) unlink(e *kafkaEntry) {
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		b.head = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	}
	e.next, e.prev = nil, nil
	e.bucket.Store(nil)
}

// clear removes and returns all entries. They are in no bucket until they are added again.
func (b *kafkaBucket) clear() *kafkaEntry {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.due.Store(-1)
	all := b.head
	b.head = nil
	for e := all; e != nil; e = e.next {
		e.bucket.Store(nil)
	}
	return all
}

type kafkaDue struct {
	due    int64
	bucket *kafkaBucket
}

// kafkaQueue is a heap by due.
type kafkaQueue []kafkaDue

func (q kafkaQueue) Len() int           { return len(q) }
func (q kafkaQueue) Less(i, j int) bool { return q[i].due < q[j].due }
func (q kafkaQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *kafkaQueue) Push(x any)        { *q = append(*q, x.(kafkaDue)) }
func (q *kafkaQueue) Pop() any {
	old := *q
	last := old[len(old)-1]
	*q = old[:len(old)-1]
	return last
}
