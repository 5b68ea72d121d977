package main

import (
	"sync"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// A Throttle makes at most one call per key and interval. The first call of a
// key is made at once and begins an interval when it returns. What comes during
// the call and the interval is dropped; or, if trailing, the last of it is kept,
// made when the interval ends, and begins the next one. So the calls of a key
// never overlap, and the end of one and the start of the next are never less
// than the interval apart.
//
// Its methods may be called by any goroutine, also from inside a call, and calls
// of different keys do not wait for each other. A key whose interval is over
// leaves nothing behind. After a Stop of the timer nothing kept is made any more.
type Throttle[K comparable, V any] struct {
	timer    *hashedwheel.Timer
	interval time.Duration
	trailing bool
	call     func(K, V)
	ends     *hashedwheel.Keyed[K, *throttled[V]] // of the intervals

	mu   sync.Mutex
	keys map[K]*throttled[V] // those that are in a call or an interval
	kept int                 // those of them that keep a value
}

// throttled is a key that is in a call or an interval. Guarded by mu.
type throttled[V any] struct {
	value V // the last one that came, if any
	kept  bool
}

// NewThrottle returns a Throttle whose intervals t keeps, to its tick. There
// should be no limit to what may be pending on t: when it refuses an interval
// after a call has been made, there is none, and what the key keeps is dropped.
func NewThrottle[K comparable, V any](t *hashedwheel.Timer, interval time.Duration, trailing bool, call func(K, V)) *Throttle[K, V] {
	th := &Throttle[K, V]{timer: t, interval: interval, trailing: trailing, call: call, keys: make(map[K]*throttled[V])}
	th.ends = hashedwheel.NewKeyed(t, th.end)
	return th
}

// Call makes the call on this goroutine, and reports that it did; or it keeps or
// drops it. The error is that of a timer which is stopped; or which refuses the
// interval, after the call has been made.
func (th *Throttle[K, V]) Call(key K, value V) (made bool, err error) {
	if th.timer.IsStopped() {
		return false, hashedwheel.ErrStopped
	}
	th.mu.Lock()
	k := th.keys[key]
	if k == nil {
		k = new(throttled[V])
		th.keys[key] = k
		th.mu.Unlock()
		return true, th.run(key, k, value)
	}
	defer th.mu.Unlock()
	if th.trailing {
		if !k.kept {
			th.kept++
		}
		k.value, k.kept = value, true
	}
	return false, nil
}

// Kept returns the number of keys that keep a call.
func (th *Throttle[K, V]) Kept() int {
	th.mu.Lock()
	defer th.mu.Unlock()
	return th.kept
}

// run makes the call and begins the interval, also if the call panics.
func (th *Throttle[K, V]) run(key K, k *throttled[V], value V) (err error) {
	defer func() {
		if err = th.ends.Set(key, k, th.interval); err != nil {
			th.mu.Lock()
			th.take(k)
			delete(th.keys, key)
			th.mu.Unlock()
		}
	}()
	th.call(key, value)
	return nil
}

// end is the end of a key's interval. Until it has the lock the interval lasts:
// a call that meets it is kept, and made by it.
func (th *Throttle[K, V]) end(key K, k *throttled[V]) {
	th.mu.Lock()
	value, ok := th.take(k)
	if !ok {
		delete(th.keys, key)
	}
	th.mu.Unlock()
	if ok {
		th.run(key, k, value) // an error is the end of the key
	}
}

// take takes what a key keeps, if it does. Called with mu held.
func (th *Throttle[K, V]) take(k *throttled[V]) (value V, ok bool) {
	if !k.kept {
		return value, false
	}
	th.kept--
	last := *k
	*k = throttled[V]{}
	return last.value, true
}
