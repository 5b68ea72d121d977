package hashedwheel

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Sleep waits until d has passed, and returns nil; or until the context is done, and returns its
// error. It returns at the first tick boundary at or after d. If d is not positive it returns at
// once, without looking at the timer. Otherwise the error may be ErrStopped, also if the timer is
// stopped meanwhile, or ErrTooManyPending.
func (t *Timer) Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	s := sleeper{done: make(chan error, 1)}
	to, err := t.NewTimeout(s, d)
	if err != nil {
		return err
	}
	select {
	case err := <-s.done:
		return err
	case <-ctx.Done():
		to.Cancel()
		return ctx.Err()
	}
}

// A sleeper is the task that ends a Sleep.
type sleeper struct {
	Light
	done chan error // has room for what is sent
}

func (s sleeper) Run(*Timeout)        { s.done <- nil }
func (s sleeper) left(*Timeout, bool) { s.done <- ErrStopped } // after a Cancel nobody receives it

// After returns a channel on which the time is sent when d has passed, as by time.After. It has
// room for it, so nothing waits for the receiver. The error is ErrStopped or ErrTooManyPending;
// then, as when the timer is stopped meanwhile, nothing is ever sent. The channel is never nil.
//
// Until d has passed the timeout stays pending: where something else may come first, use
// AfterFunc, and Cancel.
func (t *Timer) After(d time.Duration) (<-chan time.Time, error) {
	c := make(chan time.Time, 1)
	_, err := t.NewTimeout(timeSender{c: c}, d)
	return c, err
}

// A timeSender is the task of After.
type timeSender struct {
	Light
	c chan<- time.Time // has room for what is sent
}

func (s timeSender) Run(*Timeout) { s.c <- time.Now() }

// A Ticker sends the time on a channel, again and again, as a time.Ticker does. It must be
// stopped, or it goes on until its timer is.
type Ticker struct {
	C <-chan time.Time // never nil

	send    chan<- time.Time // the other end of C
	to      *Timeout
	refused error // then to is nil

	mu       sync.Mutex
	stopped  bool
	start    time.Time     // the beats are due at whole multiples, counted from here,
	interval time.Duration // of the interval
}

// NewTicker returns a ticker whose beats are d apart: each is sent at the first tick boundary at
// or after it is due, without drift, and no more than one at each. A beat is dropped when the one
// before has not been received, and when the machine has stalled. A beat allocates nothing.
//
// The error is ErrStopped or ErrTooManyPending, or says that d is not positive. The ticker is
// not nil even then, but it never sends anything.
func (t *Timer) NewTicker(d time.Duration) (*Ticker, error) {
	c := make(chan time.Time, 1)
	k := &Ticker{C: c, send: c, start: time.Now(), interval: d}
	if d <= 0 {
		k.refused = fmt.Errorf("hashedwheel: NewTicker(%v): the interval must be positive", d)
	} else {
		b := beats{Ticker: k}
		k.to, k.refused = t.Schedule(b, b)
	}
	return k, k.refused
}

// Stop ends the ticker. Once it has returned nothing is sent on C, and C is empty; it is not
// closed.
func (k *Ticker) Stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopped = true
	if k.to != nil {
		k.to.Cancel()
	}
	k.empty()
}

// Reset starts the ticker anew, also after Stop: the next beat is due d from now, and the others
// follow at that distance. What was due before is not sent any more. The error is that of
// NewTicker, if there was one; or ErrStopped, or ErrTooManyPending if the ticker was stopped, or
// says that d is not positive, and then nothing has changed.
func (k *Ticker) Reset(d time.Duration) error {
	if k.refused != nil {
		return k.refused
	}
	if d <= 0 {
		return fmt.Errorf("hashedwheel: Ticker.Reset(%v): the interval must be positive", d)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	start := time.Now()
	if _, err := k.to.Reset(d); err != nil {
		return err
	}
	k.start, k.interval, k.stopped = start, d, false
	k.empty()
	return nil
}

// empty takes a beat off C that nobody has received yet. Called with mu held.
func (k *Ticker) empty() {
	select {
	case <-k.C:
	default:
	}
}

// beats are the task of a ticker and the schedule of that.
type beats struct {
	Light
	*Ticker
}

func (b beats) Run(*Timeout) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.stopped || now.Sub(b.start) < b.interval {
		return // a Stop or a Reset came between the claim and this
	}
	select {
	case b.send <- now:
	default:
	}
}

func (b beats) Next(time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	passed := time.Since(b.start) / b.interval * b.interval
	return b.start.Add(passed + b.interval)
}
