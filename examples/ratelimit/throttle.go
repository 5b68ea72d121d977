package main

import (
	"sync"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/keyed"
)

// A Throttle makes at most one call per key and interval. It makes the first call of a key at once. The interval begins
// when that call returns. Calls that come during the call or the interval are dropped. With trailing, the last of them
// is kept instead. It is made when the interval ends, and begins the next interval. So the calls of a key never
// overlap, and the time from the end of one to the start of the next is never less than the interval.
//
// Its methods may be called by any goroutine, also from inside a call. Calls of different keys do not wait for each
// other. A key takes no memory after its interval. After a Stop of the timer no kept call is made.
type Throttle[K comparable, V any] struct {
	timer    *hashedwheel.Timer
	interval time.Duration
	trailing bool
	call     func(K, V)
	ends     *keyed.Map[K, *throttled[V]] // the ends of the intervals

	mu   sync.Mutex
	keys map[K]*throttled[V] // the keys that are in a call or an interval
	kept int                 // the number of keys that keep a call
}

// A throttled is a key that is in a call or an interval. Guarded by mu.
type throttled[V any] struct {
	value V // of the last call that came, if kept
	kept  bool
}

// NewThrottle returns a Throttle that times its intervals on t, to the precision of its tick. t should have no limit of
// pending timeouts. If t refuses an interval after a call has been made, there is no interval, and the call that the
// key keeps is dropped.
func NewThrottle[K comparable, V any](
	t *hashedwheel.Timer, interval time.Duration, trailing bool, call func(K, V),
) *Throttle[K, V] {
	th := &Throttle[K, V]{timer: t, interval: interval, trailing: trailing, call: call, keys: make(map[K]*throttled[V])}
	th.ends = keyed.New(t, th.end)
	return th
}

// Call makes the call on this goroutine, or keeps it, or drops it. It reports whether it made the call. It returns an
// error if the timer is stopped. It also returns an error if the timer refuses the interval after the call has been
// made.
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

// end ends a key's interval. The interval lasts until end has the lock. So if a call comes at the same time and gets
// the lock first, with trailing it is kept, and end makes it.
func (th *Throttle[K, V]) end(key K, k *throttled[V]) {
	th.mu.Lock()
	value, ok := th.take(k)
	if !ok {
		delete(th.keys, key)
	}
	th.mu.Unlock()
	if ok {
		th.run(key, k, value) // after an error, run has removed the key
	}
}

// take takes the kept call of a key, if there is one. The caller holds mu.
func (th *Throttle[K, V]) take(k *throttled[V]) (value V, ok bool) {
	if !k.kept {
		return value, false
	}
	th.kept--
	last := *k
	*k = throttled[V]{}
	return last.value, true
}
