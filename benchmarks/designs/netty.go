package designs

import (
	"sync/atomic"
	"time"
)

// A Netty does what Netty's HashedWheelTimer does without an executor. A timeout goes to a queue that all
// producers share. At each tick, the worker moves at most 100,000 timeouts from there to their buckets. A canceled
// timeout goes to another queue, and the worker unlinks it at the next tick. At each tick the worker goes through the
// whole bucket, runs the due tasks itself, and decrements the rounds of the other timeouts.
//
// Netty's queues are arrays in chunks. These queues link the timeouts themselves, and allocate nothing.
type Netty struct {
	start    time.Time
	tick     time.Duration
	queue    nettyQueue
	canceled nettyQueue

	buckets [WheelSize]nettyTimeout // owned by the worker; each is the head of a ring
}

// WheelSize is the number of buckets, and Netty's default.
const WheelSize = 512

const (
	nettyPending = iota
	nettyCanceled
	nettyExpired
)

// nettyTransfers is how many timeouts the worker takes from the queue at a tick, at most.
const nettyTransfers = 100_000

type nettyTimeout struct {
	deadline   time.Duration // since start
	f          func()
	state      atomic.Int32
	rounds     int64
	next, prev *nettyTimeout // in the bucket; nil if in no bucket
	queued     [2]atomic.Pointer[nettyTimeout]
}

// A nettyQueue is Vyukov's intrusive queue: a push is one exchange and one store.
type nettyQueue struct {
	link int // the index of queued that it uses
	stub nettyTimeout
	tail atomic.Pointer[nettyTimeout]
	_    [64]byte
	head *nettyTimeout // owned by the consumer
}

func (q *nettyQueue) init(link int) {
	q.link = link
	q.head = &q.stub
	q.tail.Store(&q.stub)
}

func (q *nettyQueue) push(t *nettyTimeout) {
	t.queued[q.link].Store(nil)
	q.tail.Swap(t).queued[q.link].Store(t)
}

// pop returns nil if the queue is empty, or if a push of the next timeout is in progress.
func (q *nettyQueue) pop() *nettyTimeout {
	head := q.head
	next := head.queued[q.link].Load()
	if head == &q.stub {
		if next == nil {
			return nil
		}
		q.head, head = next, next
		next = head.queued[q.link].Load()
	}
	if next == nil {
		if q.tail.Load() != head {
			return nil
		}
		q.push(&q.stub)
		if next = head.queued[q.link].Load(); next == nil {
			return nil
		}
	}
	q.head = next
	head.queued[q.link].Store(nil)
	return head
}

// NewNetty returns a timer with that tick.
func NewNetty(tick time.Duration) *Netty {
	t := &Netty{start: time.Now(), tick: tick}
	t.queue.init(0)
	t.canceled.init(1)
	for i := range t.buckets {
		head := &t.buckets[i]
		head.next, head.prev = head, head
	}
	go t.work()
	return t
}

func (t *Netty) After(d time.Duration, f func()) any {
	to := &nettyTimeout{deadline: time.Since(t.start) + d, f: f}
	t.queue.push(to)
	return to
}

func (t *Netty) Cancel(h any) bool {
	to := h.(*nettyTimeout)
	if !to.state.CompareAndSwap(nettyPending, nettyCanceled) {
		return false
	}
	t.canceled.push(to)
	return true
}

func (t *Netty) Reset(h any, d time.Duration, f func()) any {
	t.Cancel(h)
	return t.After(d, f)
}

// work does not end, as that of a heap.
func (t *Netty) work() {
	for tick := int64(0); ; tick++ {
		time.Sleep(t.tick*time.Duration(tick+1) - time.Since(t.start))
		t.unlinkCanceled()
		t.transfer(tick)
		t.expire(&t.buckets[tick%WheelSize])
	}
}

func (t *Netty) unlinkCanceled() {
	for to := t.canceled.pop(); to != nil; to = t.canceled.pop() {
		to.unlink()
	}
}

func (t *Netty) transfer(tick int64) {
	for range nettyTransfers {
		to := t.queue.pop()
		if to == nil {
			return
		}
		if to.state.Load() == nettyCanceled {
			continue
		}
		due := int64(to.deadline / t.tick)
		to.rounds = (due - tick) / WheelSize
		head := &t.buckets[max(due, tick)%WheelSize]
		to.next, to.prev = head, head.prev
		to.prev.next, head.prev = to, to
	}
}

// expire runs the due tasks of a bucket. All deadlines of its tick have passed.
func (t *Netty) expire(head *nettyTimeout) {
	for to := head.next; to != head; {
		next := to.next
		if to.rounds <= 0 {
			to.unlink()
			if to.state.CompareAndSwap(nettyPending, nettyExpired) {
				to.f()
			}
		} else {
			to.rounds--
		}
		to = next
	}
}

func (to *nettyTimeout) unlink() {
	if to.next != nil {
		to.prev.next, to.next.prev = to.next, to.prev
		to.next, to.prev = nil, nil
	}
}
