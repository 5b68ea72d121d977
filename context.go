package hashedwheel

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"
)

// WithTimeout returns WithDeadline(parent, time.Now().Add(timeout)).
func (t *Timer) WithTimeout(parent context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	return t.WithTimeoutCause(parent, timeout, nil)
}

// WithTimeoutCause is like WithTimeout, and sets the cause of the context when the timeout
// expires. The CancelFunc does not.
func (t *Timer) WithTimeoutCause(parent context.Context, timeout time.Duration, cause error) (context.Context, context.CancelFunc) {
	now := time.Now()
	return t.withDeadline(parent, now, now.Add(timeout), timeout, cause)
}

// WithDeadline does what context.WithDeadline does, with a timeout of this timer in place of one
// of the runtime's: the context is done at the first tick boundary at or after d. As long as
// nobody asks for Done it takes 160 bytes in place of 272, and less than half the time if it is
// canceled before its deadline. Once somebody does, or derives another context from it, it takes
// a third more memory than one of the context package, two thirds if the parent can be canceled,
// and as much time or a third more.
//
// It can be told from one of the context package in two ways. When a parent of the context
// package is canceled, whoever asks this context is told at once; but a channel that Done has
// returned before, and contexts derived from this one, are only done soon after. And if nobody
// has asked for Done by then, its timeout is not freed until somebody asks the context for
// something, or calls the CancelFunc, or it expires.
//
// A timer that is stopped, or has as many pending as it may, leaves the deadline to the context
// package, and so does any with a parent that has a Done channel of its own making. Stop leaves
// the contexts that are pending to the runtime: it does not return them, and counts them as
// canceled.
func (t *Timer) WithDeadline(parent context.Context, d time.Time) (context.Context, context.CancelFunc) {
	return t.WithDeadlineCause(parent, d, nil)
}

// WithDeadlineCause is like WithDeadline, and sets the cause of the context when the deadline is
// exceeded. The CancelFunc does not.
func (t *Timer) WithDeadlineCause(parent context.Context, d time.Time, cause error) (context.Context, context.CancelFunc) {
	now := time.Now()
	return t.withDeadline(parent, now, d, d.Sub(now), cause)
}

// withDeadline returns a context whose deadline d is delay from now.
func (t *Timer) withDeadline(parent context.Context, now, d time.Time, delay time.Duration, cause error) (context.Context, context.CancelFunc) {
	if parent == nil {
		panic("hashedwheel: context with a deadline, but without a parent")
	}
	if earlier, ok := parent.Deadline(); ok && earlier.Before(d) {
		return context.WithCancel(parent)
	}
	source, ok := sourceOf(parent)
	if !ok {
		return context.WithDeadlineCause(parent, d, cause)
	}
	c := &deadlineCtx{parent: parent, source: source, deadline: d, late: deadlineExceeded}
	if cause != nil {
		c.late = &ending{err: context.DeadlineExceeded, cause: cause}
	}
	switch {
	case c.check() != nil:
	case delay <= 0:
		c.end(c.late)
	default:
		c.timeout.timer, c.timeout.task = t, c
		if t.start(&c.timeout, t.clock.due(t.clock.since(now), delay)) != nil {
			return context.WithDeadlineCause(parent, d, cause)
		}
	}
	return c, c.cancel
}

// A deadlineCtx is a context that is done when its timeout expires. It is the task of that, and
// the two are one allocation.
//
// Whoever ends it first, of the timeout, the CancelFunc and the parent, says how. A parent of
// the context package tells nobody but its own kind at once, but it can be asked. So whatever is
// asked of this context asks the parent first. It asks none but those of that package and ours,
// which take no lock of the user's and run no code of his.
//
// Only the context package itself can make children that know each other without a goroutine.
// So as soon as somebody asks for Done, and may be about to derive a context, there is one of
// its contexts inside this one, the inner one: Done is its Done, and children become its
// children. A custom parent is the way to end it with an error of our choice: see innerCtx.
type deadlineCtx struct {
	timeout Timeout // its timer is nil if it was not armed

	// Immutable.
	parent   context.Context
	source   context.Context // whose end is the parent's, see sourceOf
	deadline time.Time
	late     *ending // how it ends at the deadline

	// Shared.
	ended atomic.Pointer[ending]   // nil as long as it has not
	inner atomic.Pointer[innerCtx] // nil as long as nobody has asked for Done

	mu      sync.Mutex
	runtime *time.Timer // guarded by mu: in place of the timeout, after Stop
}

// sourceOf returns the context that ends when a parent does: nil if that never ends, or the
// nearest one with a Done channel of its own, whose channel the parent's is. It is not ok if that
// is neither ours nor one of the context package.
func sourceOf(parent context.Context) (source context.Context, ok bool) {
	if up, ok := parent.(*deadlineCtx); ok {
		return up, true // without having it make an inner one
	}
	done := parent.Done()
	if done == nil {
		return nil, true
	}
	if up, ok := parent.Value(ourKey).(*deadlineCtx); ok && up.Done() == done {
		return up, true
	}
	std, ok := parent.Value(causeKey).(context.Context)
	return std, ok && std.Done() == done
}

// check returns how the context has ended, nil if it has not.
func (c *deadlineCtx) check() *ending {
	if c.ended.Load() == nil && c.source != nil {
		if err := c.source.Err(); err != nil {
			c.end(&ending{err: err, cause: context.Cause(c.source)})
		}
	}
	return c.ended.Load()
}

// end ends the context, unless it has ended. When it returns all that is derived from the
// context has ended too, even if somebody else was first.
func (c *deadlineCtx) end(e *ending) {
	c.ended.CompareAndSwap(nil, e)
	c.endDerived()
	if c.timeout.timer == nil || c.timeout.Cancel() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runtime != nil {
		c.runtime.Stop()
	}
}

// endDerived ends all that is derived from the context, which has ended, and returns when that
// has been done, whoever does it.
func (c *deadlineCtx) endDerived() {
	c.closeDone()
	c.inner.Load().endFollowers()
}

// closeDone ends the inner context, or sees to it that there will be none. Called after the
// context has ended; it returns when that has been done, whoever does it.
func (c *deadlineCtx) closeDone() {
	if !c.inner.CompareAndSwap(nil, innerClosed) {
		c.inner.Load().stop()
	}
}

// cancel is the CancelFunc.
func (c *deadlineCtx) cancel() {
	c.check()
	c.end(canceledByFunc)
}

// Run is the task: the deadline has come.
func (c *deadlineCtx) Run(*Timeout) {
	c.check()
	c.end(c.late)
}

// handBack leaves the deadline to the runtime.
func (c *deadlineCtx) handBack() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended.Load() == nil { // else end is past the timeout, or will find mu locked
		c.runtime = time.AfterFunc(time.Until(c.deadline), func() { c.Run(nil) })
	}
}

func (c *deadlineCtx) Deadline() (time.Time, bool) { return c.deadline, true }

func (c *deadlineCtx) Err() error {
	e := c.check()
	if e == nil {
		return nil
	}
	c.closeDone() // so that Done is closed whenever there is an error
	return e.err
}

func (c *deadlineCtx) Done() <-chan struct{} {
	if c.check() != nil {
		c.closeDone()
	}
	if in := c.inner.Load(); in != nil {
		return in.done
	}
	in := newInner(c)
	in.follow() // before anybody can have its channel
	if !c.inner.CompareAndSwap(nil, in) {
		in.unfollow()
		return c.inner.Load().done
	}
	c.check() // the source may have ended before it was followed
	return in.done
}

// Value does not ask the parent for causeKey, for which the answer is the context's own.
func (c *deadlineCtx) Value(key any) any {
	switch key {
	case ourKey:
		return c
	case causeKey:
		if c.check() != nil {
			c.closeDone()
		}
		switch in := c.inner.Load(); in {
		case nil:
			return nil
		case innerClosed:
			return c.ended.Load().carrier().Value(key)
		default:
			return in.std.Value(key)
		}
	}
	return c.parent.Value(key)
}

// String is in the style of the context package, since those derived from it include it.
func (c *deadlineCtx) String() string {
	parent := reflect.TypeOf(c.parent).String()
	if s, ok := c.parent.(fmt.Stringer); ok {
		parent = s.String()
	}
	return fmt.Sprintf("%s.WithDeadline(%v [%v])", parent, c.deadline, time.Until(c.deadline))
}
