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

	unfollow  func() bool            // ends the following of the source
	followers map[*innerCtx]struct{} // whose source is the outer context; guarded by outer.mu
}

var (
	ourKey = new(int) // of Value: the nearest deadlineCtx

	innerClosed = &innerCtx{done: closedChan(), stop: func() {}}
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

// follow has the outer context look at its source when that ends. One of ours tells it at once.
// One of the context package starts a goroutine for it then, and none before. Called before
// anybody else knows the inner context.
func (in *innerCtx) follow() {
	c := in.outer
	in.unfollow = notStopped
	switch source := c.source.(type) {
	case nil:
	case *deadlineCtx:
		source.Done() // from here it has an inner context
		in.unfollow = source.inner.Load().lead(in)
	default:
		in.unfollow = context.AfterFunc(source, func() { c.check() })
	}
}

// lead adds a follower, and returns what takes it back.
func (in *innerCtx) lead(follower *innerCtx) (stop func() bool) {
	if in == innerClosed {
		return notStopped // the follower is going to see that itself
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
	followers := slices.Collect(maps.Keys(in.followers))
	mu.Unlock()
	for _, f := range followers {
		if f.outer.check() != nil {
			f.outer.endDerived() // if somebody else is at it, wait until f has been taken off
		}
	}
	in.unfollow()
}

func (in *innerCtx) Deadline() (time.Time, bool) { return in.outer.Deadline() }
func (in *innerCtx) Done() <-chan struct{}       { return never }

func (in *innerCtx) Err() error {
	if e := in.outer.ended.Load(); e != nil {
		return e.err
	}
	return nil
}

// Value tells the cause of the end. Before that there is none, and std must not take a context
// further up for its parent.
func (in *innerCtx) Value(key any) any {
	if key != causeKey {
		return in.outer.parent.Value(key)
	}
	if e := in.outer.ended.Load(); e != nil {
		return e.carrier().Value(key)
	}
	return nil
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
	p := &keyProbe{Context: context.Background()} // whatever else Cause may ask
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
