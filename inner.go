package hashedwheel

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// An innerCtx is the parent of the inner context, std, and with it the means to end that: a
// parent that has a method AfterFunc is given a function to call when it is done, and std then
// ends with the error and the cause of the parent.
type innerCtx struct {
	outer *deadlineCtx
	std   context.Context
	done  <-chan struct{} // of std
	stop  func()          // ends std; returns when it has ended, and all that is derived from it

	// Guarded by outer.mu.
	followers map[*innerCtx]struct{} // whose outer contexts have this outer context for a parent
	unfollow  func() bool            // nil as long as it does not follow the parent
}

var (
	ourKey = new(int) // of Value: the nearest deadlineCtx

	innerClosed = &innerCtx{done: closedChan(), std: context.Background(), stop: func() {}}
	never       = make(chan struct{}) // Done of an innerCtx; not nil, or std would not care for it
)

func closedChan() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func newInner(outer *deadlineCtx) *innerCtx {
	in := &innerCtx{outer: outer}
	std, cancel := context.WithCancel(in)
	_ = cancel // stop does it
	in.std, in.done = std, std.Done()
	return in
}

// AfterFunc is given the function that ends std.
func (in *innerCtx) AfterFunc(f func()) func() bool {
	in.stop = f
	return notStopped
}

func notStopped() bool { return false }

// follow has the outer context look at its parent when that is done. One of ours tells it at
// once. Any other parent starts a goroutine for it then, and none before.
func (in *innerCtx) follow() {
	c := in.outer
	done := c.parent.Done()
	if done == nil {
		return
	}
	var unfollow func() bool
	if up, ok := c.parent.Value(ourKey).(*deadlineCtx); ok && up.Done() == done {
		unfollow = up.inner.Load().lead(in)
	} else {
		unfollow = context.AfterFunc(c.parent, func() { c.check() })
	}
	c.mu.Lock()
	in.unfollow = unfollow
	c.mu.Unlock()
	if c.check() != nil {
		in.endFollowers() // again, if that was before there was unfollow to call
	}
}

// lead adds a follower, and returns what takes it back.
func (in *innerCtx) lead(follower *innerCtx) (stop func() bool) {
	if in == innerClosed {
		return nil // the follower is going to see that itself
	}
	mu := &in.outer.mu
	mu.Lock()
	defer mu.Unlock()
	if in.followers == nil {
		in.followers = make(map[*innerCtx]struct{})
	}
	in.followers[follower] = struct{}{}
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		delete(in.followers, follower)
		return true
	}
}

// endFollowers has the followers see that the outer context has ended, and ceases to follow. It
// may be called more than once, and returns when all have seen it.
func (in *innerCtx) endFollowers() {
	if in == innerClosed {
		return
	}
	mu := &in.outer.mu
	mu.Lock()
	followers, unfollow := slices.Collect(maps.Keys(in.followers)), in.unfollow
	in.unfollow = nil
	mu.Unlock()
	for _, f := range followers {
		if f.outer.check() != nil {
			f.outer.endDerived() // if somebody else is at it, wait until f has been taken off
		}
	}
	if unfollow != nil {
		unfollow()
	}
}

func (in *innerCtx) Deadline() (time.Time, bool) { return in.outer.Deadline() }
func (in *innerCtx) Done() <-chan struct{}       { return never }

func (in *innerCtx) Err() error {
	if e := in.outer.ended.Load(); e != nil {
		return e.err
	}
	return nil
}

func (in *innerCtx) Value(key any) any {
	if key == causeKey {
		if e := in.outer.ended.Load(); e != nil {
			return e.carrier().Value(key)
		}
	}
	return in.outer.parent.Value(key)
}

// An ending is how a context has ended. It is not changed any more, and shared.
type ending struct {
	err, cause error

	once sync.Once
	std  context.Context // see carrier
}

var (
	deadlineExceeded = &ending{err: context.DeadlineExceeded, cause: context.DeadlineExceeded}
	canceledByFunc   = &ending{err: context.Canceled, cause: context.Canceled}
)

// causeKey is the key of Value by which context.Cause asks for a context of its own package,
// which knows the cause. It is found out by having Cause ask.
var causeKey = func() any {
	p := new(keyProbe)
	context.Cause(p)
	return p.key
}()

type keyProbe struct {
	context.Context
	key any
}

func (p *keyProbe) Err() error        { return context.Canceled }
func (p *keyProbe) Value(key any) any { p.key = key; return nil }

// carrier returns a context of the context package that has ended with the cause.
func (e *ending) carrier() context.Context {
	e.once.Do(func() {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(e.cause)
		e.std = ctx
	})
	return e.std
}
