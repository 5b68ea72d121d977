package main

import (
	"sync"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/keyed"
)

// A Debounce delays the calls of a key until the key has been quiet for a time. Then it makes only the last of these
// calls. Steady traffic cannot delay a call for longer than a maximum, counted from the first of these calls.
//
// Its methods may be called by any goroutine, also from inside a call. The calls are tasks of the timer. A call that
// takes long may overlap with the next one of its key. After a Stop of the timer no call is made.
type Debounce[K comparable, V any] struct {
	quiet, maxWait time.Duration
	call           func(K, V)
	waiting        *keyed.Map[K, *burst[V]]

	mu     sync.Mutex
	bursts map[K]*burst[V]
}

// A burst is a series of calls of a key, the last of which waits to be made. Guarded by mu.
type burst[V any] struct {
	first time.Time
	last  V
}

// NewDebounce returns a Debounce that waits on t, to the precision of its tick. A maxWait of zero means no maximum.
func NewDebounce[K comparable, V any](
	t *hashedwheel.Timer, quiet, maxWait time.Duration, call func(K, V),
) *Debounce[K, V] {
	d := &Debounce[K, V]{quiet: quiet, maxWait: maxWait, call: call, bursts: make(map[K]*burst[V])}
	d.waiting = keyed.New(t, d.expired)
	return d
}

// A Call and the end of the wait can come at the same time. The result of Touch decides:
//
//   - true: the key was waiting, and now waits until a new deadline. The call of its burst has not been made, and the
//     burst takes the new value.
//   - false: the wait is over, and expired has started or is about to start. It makes the call of that burst without
//     the new value, which begins another burst. Set does not affect the entry that has just expired.

// Call delays the call, and replaces the one that its key waits for, if any. It returns an error if the timer is
// stopped or refuses the timeout. Then nothing has changed.
func (d *Debounce[K, V]) Call(key K, value V) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if b := d.bursts[key]; b != nil {
		if _, ok := d.waiting.Touch(key, d.wait(now.Sub(b.first))); ok {
			b.last = value
			return nil
		}
	}
	b := &burst[V]{first: now, last: value}
	if err := d.waiting.Set(key, b, d.wait(0)); err != nil {
		return err
	}
	d.bursts[key] = b // expired cannot come first, because it waits for the lock
	return nil
}

// wait returns how long a burst of the given age waits if no other call comes.
func (d *Debounce[K, V]) wait(age time.Duration) time.Duration {
	if d.maxWait == 0 {
		return d.quiet
	}
	return min(d.quiet, d.maxWait-age)
}

// Waiting returns the number of keys that wait for their call.
func (d *Debounce[K, V]) Waiting() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.bursts)
}

// expired makes the call of a burst at the end of its wait.
func (d *Debounce[K, V]) expired(key K, b *burst[V]) {
	d.mu.Lock()
	value := b.last
	if d.bursts[key] == b {
		delete(d.bursts, key)
	}
	d.mu.Unlock()
	d.call(key, value)
}
