package hashedwheel

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"
)

// ErrGroupClosed is returned when a timeout of a Group is armed after Close.
var ErrGroupClosed = errors.New("hashedwheel: group is closed")

// A Group is a set of timeouts that end together, such as the timeouts of a connection. A timeout leaves the group
// when it is canceled or expires, and a Reset brings it back. After Close, arming one fails with ErrGroupClosed. Any
// goroutine may call the methods, also from inside a task. Methods of the zero Group panic.
type Group struct {
	timer *Timer // immutable

	mu     sync.Mutex
	closed bool
	first  *member // a list of the pending members
	n      int     // its length
}

// A member is a timeout of a group, and its hook. It is on the list of the group while it is pending.
type member struct {
	wrap
	timeout Timeout
	group   *Group // immutable

	// Guarded by group.mu. The field armed counts up when the timeout is armed, and down when it ends. It is 0 or 1,
	// or more for a moment, because Resets race to arm the timeout, and its end may be counted after the next
	// arming.
	armed      int
	prev, next *member
}

// A GroupOption changes a default of NewGroup. There are none yet. A later version can add some.
type GroupOption func(*groupConfig)

// groupConfig will hold what the options set.
type groupConfig struct{}

// NewGroup returns an empty group for timeouts of t. It panics if t is nil, or was not made by New.
func NewGroup(t *Timer, opts ...GroupOption) *Group {
	if t == nil {
		panic("hashedwheel: NewGroup: nil Timer")
	}
	t.checkMade()
	return &Group{timer: t}
}

func (g *Group) checkMade() {
	if g.timer == nil {
		panic("hashedwheel: the Group was not made by NewGroup")
	}
}

// NewTimeout is Timer.NewTimeout for a timeout of the group.
func (g *Group) NewTimeout(task Task, delay time.Duration) (*Timeout, error) {
	g.checkMade()
	task, _ = prepareTask(task)
	if task == nil {
		return nil, ErrNilTask
	}
	return g.start(task, g.timer.clock.DueIn(delay))
}

// AfterFunc is Timer.AfterFunc for a timeout of the group.
func (g *Group) AfterFunc(delay time.Duration, f func()) (*Timeout, error) {
	return g.NewTimeout(plainFunc(f), delay)
}

// Schedule is Timer.Schedule for a timeout of the group. For a fixed interval, use Every, which drops missed runs. For a
// fixed delay, use a schedule whose Next returns time.Now().Add(delay).
func (g *Group) Schedule(task Task, schedule Schedule) (*Timeout, error) {
	g.checkMade()
	r, err := bySchedule(task, schedule)
	if err != nil {
		return nil, err
	}
	if g.isClosed() {
		return g.start(r, 0) // returns the error. Next is not called
	}
	if err := r.first(g.timer); err != nil {
		return nil, err
	}
	return g.start(r, r.tick)
}

func (g *Group) start(task Task, tick uint64) (*Timeout, error) {
	m := &member{wrap: wrap{task}, group: g}
	g.timer.Bind(&m.timeout, m)
	if _, err := m.timeout.reset(tick, false); err != nil {
		return nil, err
	}
	return &m.timeout, nil
}

func (g *Group) isClosed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

// Len returns the number of pending timeouts in the group. It is exact when no call is in progress.
func (g *Group) Len() int {
	g.checkMade()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.n
}

// Cancel cancels the timeouts of the group that are pending at the call, and returns how many. The group stays open.
func (g *Group) Cancel() (n int) {
	for _, m := range g.members() { // without the lock, because cancel locks the group to leave it
		if m.timeout.cancel() { // not Cancel, which is also true for what Stop has just returned
			n++
		}
	}
	return n
}

// members returns the pending members.
func (g *Group) members() []*member {
	g.checkMade()
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]*member, 0, g.n)
	for m := g.first; m != nil; m = m.next {
		all = append(all, m)
	}
	return all
}

// Close closes the group, cancels its pending timeouts, and returns how many. After Close has returned, no timeout
// of the group expires. Tasks that have been started go on, or are at their first instruction: see WaitRunning.
func (g *Group) Close() (n int) {
	g.checkMade()
	g.mu.Lock()
	// Before Cancel, so that no member joins the list meanwhile.
	g.closed = true
	g.mu.Unlock()
	for n = g.Cancel(); g.Len() > 0; n += g.Cancel() {
		runtime.Gosched() // other goroutines are arming, canceling or claiming the rest
	}
	return n
}

// WaitRunning waits for the runs of the group's tasks that are in progress at the call, and returns nil when they are over.
// With a Schedule, a run includes the call of Next that follows. When WaitRunning returns nil after Close, no task of the
// group and no such Next is running or will run. If the context is done first, WaitRunning returns the context's error.
// Inside a task of the group or its Next, it returns only when the context is done. Unlike Timeout.WaitRunning, it does not
// wait for Canceled.
func (g *Group) WaitRunning(ctx context.Context) error {
	g.checkMade()
	g.timer.clock.Check()
	runs := g.timer.tasks.Runs(func(to *Timeout) bool {
		m, ok := to.task.(*member)
		return ok && m.group == g
	})
	var overs []<-chan struct{}
	for _, run := range runs {
		overs = append(overs, run.Over)
	}
	if !g.timer.awaitRuns(ctx, overs) {
		return ctx.Err()
	}
	return nil
}

func (m *member) claim(to *Timeout, word uint64) (claimed uint64, ok bool) {
	claimed, ok = m.inner().claim(to, word)
	if ok && status(claimed) == expired {
		m.countEnd()
	}
	return claimed, ok
}

func (m *member) arm(to *Timeout) error {
	g := m.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return ErrGroupClosed
	}
	if m.armed++; m.armed == 1 {
		m.next = g.first
		if m.next != nil {
			m.next.prev = m
		}
		g.first = m
		g.n++
	}
	return m.inner().arm(to)
}

func (m *member) disarmed(to *Timeout, byCancel bool) {
	m.countEnd()
	m.inner().disarmed(to, byCancel)
}

// countEnd counts an end of the timeout, or an arming that failed. It takes the member off the list if it is not armed again.
func (m *member) countEnd() {
	g := m.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if m.armed--; m.armed != 0 {
		return
	}
	if m.prev != nil {
		m.prev.next = m.next
	} else {
		g.first = m.next
	}
	if m.next != nil {
		m.next.prev = m.prev
	}
	m.prev, m.next = nil, nil
	g.n--
}
