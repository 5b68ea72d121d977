package hashedwheel

import (
	"context"
	"runtime"
	"slices"
)

// A waiter waits until the task of a timeout is not running.
type waiter struct {
	to   *Timeout
	done chan struct{} // closed when it is not
}

// Wait returns nil as soon as no run of the timeout's task is in progress, at once if none is.
// So after a Cancel, and with nobody who resets the timeout, its task is not running and will
// not: what it uses can be taken away. Wait returns the context's error if that is done first;
// from inside the task itself, it always is.
//
// What Wait needs is found by a look at the tasks that are running, so that those who do not
// wait do not pay for it.
func (to *Timeout) Wait(ctx context.Context) error {
	r := &to.timer.runners
	w := r.newWaiter(to)
	if w == nil {
		return nil
	}
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		r.forgetWaiter(w)
		return ctx.Err()
	}
}

// newWaiter returns a waiter for a timeout, nil if its task is not running.
//
// None waits for ever: the count of waiters is raised before the look at the runners, and a
// runner looks at the count after it has left the task. So either it is found, or it finds
// the waiter, in the list.
func (r *runners) newWaiter(to *Timeout) *waiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := &waiter{to: to, done: make(chan struct{})}
	r.waiters = append(r.waiters, w)
	r.awaiting.Store(int32(len(r.waiters)))
	if !r.running(to) {
		r.dropWaiters(func(other *waiter) bool { return other == w })
		return nil
	}
	return w
}

// running reports whether a runner runs the task of a timeout, or is about to. Called with mu
// held, which it lets go of while a runner is claiming, and may be just about to.
func (r *runners) running(to *Timeout) bool {
	var others map[*runner]bool // that were at something else when, or after, this was called
	for {
		claims := false
		for _, rn := range r.live {
			switch at := rn.at.Load(); {
			case others[rn]:
			case at == to:
				return true
			case at == claiming:
				claims = true
			case others != nil:
				others[rn] = true
			}
		}
		if !claims {
			return false
		}
		if others == nil {
			others = make(map[*runner]bool)
		}
		r.mu.Unlock()
		runtime.Gosched()
		r.mu.Lock()
	}
}

// tellWaiters ends those who wait for the task of a timeout, if nobody else runs it. Called by
// a runner that has left it. Who begins to wait while mu is let go of does so for a later run, and is
// told by the runner of that.
func (r *runners) tellWaiters(to *Timeout) {
	r.mu.Lock()
	defer r.mu.Unlock()
	waiting := slices.Clone(r.waiters)
	if r.running(to) {
		return
	}
	r.dropWaiters(func(w *waiter) bool {
		told := w.to == to && slices.Contains(waiting, w)
		if told {
			close(w.done)
		}
		return told
	})
}

// forgetWaiter takes back a waiter whose context is done.
func (r *runners) forgetWaiter(w *waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropWaiters(func(other *waiter) bool { return other == w })
}

// dropWaiters takes those waiters off the list. Called with mu held.
func (r *runners) dropWaiters(del func(w *waiter) bool) {
	r.waiters = slices.DeleteFunc(r.waiters, del)
	r.awaiting.Store(int32(len(r.waiters)))
}

// waitIdle returns when no task is running, none is left to be told, and no runner is there; or
// with the error of the context. Called after Stop.
func (r *runners) waitIdle(ctx context.Context) error {
	r.mu.Lock()
	if len(r.live) == 0 {
		r.mu.Unlock()
		return nil
	}
	if r.idle == nil {
		r.idle = make(chan struct{})
	}
	idle := r.idle
	r.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
