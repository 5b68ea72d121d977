package main

import (
	"sync"
	"time"

	"github.com/hashedwheel/hashedwheel"
)

// A Debounce makes a call when its key has been quiet: the last of the calls
// that came without a pause of that length between them. Steady traffic cannot
// put it off for longer than a maximum, counted from the first of them.
//
// Its methods may be called by any goroutine, also from inside a call. The calls
// are tasks of the timer, and one that takes longer than the wait for the next of
// its key may overlap with that. After a Stop of the timer none is made any more.
type Debounce[K comparable, V any] struct {
	quiet, maxWait time.Duration
	call           func(K, V)
	waiting        *hashedwheel.Keyed[K, *burst[V]]

	mu     sync.Mutex
	bursts map[K]*burst[V]
}

// A burst is what has come of a key, and waits to be called. Guarded by mu.
type burst[V any] struct {
	first time.Time
	last  V
}

// NewDebounce returns a Debounce whose waits t keeps, to its tick. A maximum of
// zero is none.
func NewDebounce[K comparable, V any](t *hashedwheel.Timer, quiet, maxWait time.Duration, call func(K, V)) *Debounce[K, V] {
	d := &Debounce[K, V]{quiet: quiet, maxWait: maxWait, call: call, bursts: make(map[K]*burst[V])}
	d.waiting = hashedwheel.NewKeyed(t, d.expired)
	return d
}

// A Call and the end of the wait can meet. What Move answers decides:
//
//   - true: the key was waiting, and now has until another time. Its burst has
//     not been called and takes the value.
//   - false: its time had come, and expired has been started, or is just about
//     to be. It makes the call of that burst as it is, and the value begins
//     another one. Set leaves a generation alone that has just expired.

// Call has the call made later, in place of any that its key waits for. The
// error is that of a timer which is stopped or refuses it; then all is as it was.
func (d *Debounce[K, V]) Call(key K, value V) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if b := d.bursts[key]; b != nil && d.waiting.Move(key, d.wait(now.Sub(b.first))) {
		b.last = value
		return nil
	}
	b := &burst[V]{first: now, last: value}
	if err := d.waiting.Set(key, b, d.wait(0)); err != nil {
		return err
	}
	d.bursts[key] = b // before expired, which waits for the lock
	return nil
}

// wait returns how long a burst of some age waits, if there is nothing else.
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

// expired makes the call of a burst whose wait is over.
func (d *Debounce[K, V]) expired(key K, b *burst[V]) {
	d.mu.Lock()
	value := b.last
	if d.bursts[key] == b {
		delete(d.bursts, key)
	}
	d.mu.Unlock()
	d.call(key, value)
}
