package keyed

import (
	"sync"

	"github.com/hashedwheel/hashedwheel/internal/due"
)

// A limit lets at most n calls of expired run at the same time. Other items wait in a queue. The queue has no
// goroutine of its own: after a task has called expired for its item, it takes the next item of the queue.
type limit[K comparable, V any] struct {
	n int // immutable

	mu      sync.Mutex
	running int           // tasks that call expired; n while items wait
	waiting []*item[K, V] // the first is next
}

// expire calls expired for an item that has left the map, or leaves it to a task that is calling expired.
func (l *limit[K, V]) expire(it *item[K, V]) {
	if l.start(it) {
		l.run(it)
	}
}

// start reports whether the caller may run. Otherwise the item waits.
func (l *limit[K, V]) start(it *item[K, V]) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running == l.n {
		l.waiting = append(l.waiting, it)
		return false
	}
	l.running++
	return true
}

// next returns the item that has waited for longest. If there is none, it returns nil, and the caller no longer runs.
func (l *limit[K, V]) next() (it *item[K, V]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.running--
		l.waiting = nil
		return nil
	}
	it, l.waiting[0] = l.waiting[0], nil
	l.waiting = l.waiting[1:]
	return it
}

// run calls expired for an item, and then for one item of the queue after another.
//
// A call may end its goroutine by runtime.Goexit. Then only deferred functions still run there. If one of them made the next
// call, calls would nest. So another goroutine makes it, and this one waits until no call is left. Meanwhile the task
// runs: it counts for the limits of the timer, and Shutdown waits for it.
func (l *limit[K, V]) run(it *item[K, V]) {
	over := false
	defer func() {
		if over {
			return
		}
		value := recover()
		done := make(chan struct{})
		l.goOn(done)
		if value != nil { // the panic handler has panicked, to end the program. An executor may recover it
			panic(value)
		}
		<-done
	}()
	l.callAll(it)
	over = true
}

// goOn starts a goroutine that calls expired for the items of the queue. If a call ends it, another one goes on. The last of them
// closes done.
func (l *limit[K, V]) goOn(done chan<- struct{}) {
	it := l.next()
	if it == nil {
		close(done)
		return
	}
	go func() {
		over := false
		defer func() {
			if over {
				close(done)
			} else {
				l.goOn(done)
			}
		}()
		l.callAll(it)
		over = true
	}()
}

// callAll calls expired for an item, and then for one item of the queue after another, until none is left.
func (l *limit[K, V]) callAll(it *item[K, V]) {
	for ; it != nil; it = l.next() {
		it.callExpired()
	}
}

// callExpired calls expired. A panic is reported with the timeout of the item.
func (it *item[K, V]) callExpired() {
	defer due.Catch(&it.timeout)
	it.shard.owner.expired(it.key, it.value)
}
