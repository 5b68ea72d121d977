package keyed

import (
	"sync"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/internal/due"
)

// A limit lets at most n calls of expired run at the same time. Other items wait in a queue. The queue has no
// goroutine of its own: after a task has called expired for its item, it takes the next item of the queue.
type limit[K comparable, V any] struct {
	n     int                // immutable, as the next two
	timer *hashedwheel.Timer // knows the limit while items wait: see due.Access.Hold
	made  time.Time          // times of items count from here

	mu      sync.Mutex                    // locked after the mu of a shard, or without it
	calling map[*item[K, V]]chan struct{} // of the calls in progress; n while items wait. Closed at the end of the call, or nil
	waiting []held[K, V]                  // the first is next
}

// A held is an item that waits.
type held[K comparable, V any] struct {
	item  *item[K, V]
	since time.Duration // from limit.made
}

func newLimit[K comparable, V any](t *hashedwheel.Timer, n int) *limit[K, V] {
	return &limit[K, V]{n: n, timer: t, made: time.Now(), calling: make(map[*item[K, V]]chan struct{})}
}

// Waiting implements due.Queue.
func (l *limit[K, V]) Waiting() (keys int, longest time.Duration, limit int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if keys = len(l.waiting); keys > 0 {
		longest = max(time.Since(l.made)-l.waiting[0].since, 0)
	}
	return keys, longest, l.n
}

// start claims an item and begins the call for it. If the caller must make the call by run, calls is true. Otherwise the item
// waits.
func (l *limit[K, V]) start(it *item[K, V]) (claimed, calls bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !it.claim() { // with mu held, so that Close finds the item: see close.go
		return false, false
	}
	if len(l.calling) == l.n {
		if len(l.waiting) == 0 {
			due.Root.Hold(l.timer, l)
		}
		l.waiting = append(l.waiting, held[K, V]{it, time.Since(l.made)})
		return true, false
	}
	l.calling[it] = nil
	return true, true
}

// next ends the call for an item, and begins the one for the item that has waited for longest, which it returns. If none
// waits, it returns nil.
func (l *limit[K, V]) next(it *item[K, V]) *item[K, V] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if over := l.calling[it]; over != nil {
		close(over)
	}
	delete(l.calling, it)
	if len(l.waiting) == 0 {
		l.waiting = nil
		return nil
	}
	it, l.waiting[0] = l.waiting[0].item, held[K, V]{}
	if l.waiting = l.waiting[1:]; len(l.waiting) == 0 {
		due.Root.Release(l.timer, l)
	}
	l.calling[it] = nil
	return it
}

// takeWaiting returns the items that wait, and forgets them. So no call for them begins.
func (l *limit[K, V]) takeWaiting() []held[K, V] {
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting := l.waiting
	if l.waiting = nil; len(waiting) > 0 {
		due.Root.Release(l.timer, l)
	}
	return waiting
}

// untilOver returns a channel for each call in progress, which is closed when the call is over.
func (l *limit[K, V]) untilOver() (calls []<-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for it, over := range l.calling {
		if over == nil {
			over = make(chan struct{})
			l.calling[it] = over
		}
		calls = append(calls, over)
	}
	return calls
}

// run calls expired for an item whose call start has begun, and then for one item of the queue after another.
//
// A call may end its goroutine by runtime.Goexit. Then only deferred functions still run there. If one of them made the next
// call, calls would nest. So another goroutine makes it, and this one waits until no call is left. Meanwhile the task
// runs: it counts for the limits of the timer, and Shutdown waits for it.
func (l *limit[K, V]) run(it *item[K, V]) {
	defer func() {
		if it == nil {
			return
		}
		value := recover()
		done := make(chan struct{})
		l.goOn(it, done)
		if value != nil { // the panic handler has panicked, to end the program. An executor may recover it
			panic(value)
		}
		<-done
	}()
	for ; it != nil; it = l.next(it) {
		it.callExpired()
	}
}

// goOn goes on after the call for the last item has ended its goroutine. It starts a goroutine that calls expired for the
// items of the queue. If a call ends that one, another goes on. The last of them closes done.
func (l *limit[K, V]) goOn(last *item[K, V], done chan<- struct{}) {
	it := l.next(last)
	if it == nil {
		close(done)
		return
	}
	go func() {
		defer func() {
			if it == nil {
				close(done)
			} else {
				l.goOn(it, done)
			}
		}()
		for ; it != nil; it = l.next(it) {
			it.callExpired()
		}
	}()
}

// callExpired calls expired. A panic is reported with the timeout of the item.
func (it *item[K, V]) callExpired() {
	defer it.shard.takeLeft() // the goroutine may go on with other calls
	defer due.Root.Catch(&it.timeout)
	it.shard.owner.expired(it.key, it.value)
}
