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
func (l *limit[K, V]) run(it *item[K, V]) {
	over := false
	defer func() {
		if !over { // expired has called runtime.Goexit
			l.run(l.next())
		}
	}()
	for ; it != nil; it = l.next() {
		it.callExpired()
	}
	over = true
}

// callExpired calls expired. A panic is reported with the timeout of the item.
func (it *item[K, V]) callExpired() {
	defer due.Catch(&it.timeout)
	it.shard.owner.expired(it.key, it.value)
}
