package hashedwheel

import (
	"errors"
	"runtime"
	"sync"
	"time"
)

// ErrGroupClosed is returned when a timeout of a Group is armed after its Close.
var ErrGroupClosed = errors.New("hashedwheel: group is closed")

// A Group is a set of timeouts that belong together, those of a connection or of a session, and
// that end together. Its methods may be called by any goroutine, also from inside a task, and
// the timeouts may be used like any others: one that is canceled or expires leaves the group,
// and a Reset brings it back.
//
// A timeout of a group costs 96 bytes, and a lock of the group when it is armed and when it
// ends. To cancel all takes time for as many as there are in the group, not in the timer.
type Group struct {
	timer *Timer // immutable

	mu     sync.Mutex
	closed bool
	first  *member // a list of those that are pending
	n      int     // its length
}

// A member is a timeout of a group and the hook of that. It is on the list of the group while it is
// pending, and for a moment before and after.
type member struct {
	wrap
	timeout Timeout
	group   *Group // immutable

	// Guarded by group.mu. The count is how often it was armed, less how often it has ended.
	// They come in the wrong order if a Reset meets the end that it undoes; so it is on the
	// list as long as the count is positive.
	armed      int
	prev, next *member
}

// NewGroup returns an empty group of timeouts of t.
func NewGroup(t *Timer) *Group {
	t.checkMade()
	return &Group{timer: t}
}

// NewTimeout is Timer.NewTimeout for the group. The error is ErrGroupClosed after Close.
func (g *Group) NewTimeout(task Task, delay time.Duration) (*Timeout, error) {
	task, _ = adopt(task)
	if task == nil {
		return nil, ErrNilTask
	}
	return g.start(task, g.timer.clock.dueIn(delay))
}

// AfterFunc is Timer.AfterFunc for the group. The error is ErrGroupClosed after Close.
func (g *Group) AfterFunc(delay time.Duration, f func()) (*Timeout, error) {
	return g.NewTimeout(plainFunc(f), delay)
}

// ScheduleAtFixedRate is Timer.ScheduleAtFixedRate for the group. The error is ErrGroupClosed
// after Close.
func (g *Group) ScheduleAtFixedRate(task Task, initialDelay, period time.Duration) (*Timeout, error) {
	return g.repeat(g.timer.atFixedRate(task, initialDelay, period))
}

// ScheduleWithFixedDelay is Timer.ScheduleWithFixedDelay for the group. The error is
// ErrGroupClosed after Close.
func (g *Group) ScheduleWithFixedDelay(task Task, initialDelay, delay time.Duration) (*Timeout, error) {
	return g.repeat(g.timer.withFixedDelay(task, initialDelay, delay))
}

// Schedule is Timer.Schedule for the group. The error is ErrGroupClosed after Close.
func (g *Group) Schedule(task Task, schedule Schedule) (*Timeout, error) {
	return g.repeat(g.timer.bySchedule(task, schedule))
}

func (g *Group) repeat(r *repeating, err error) (*Timeout, error) {
	if err != nil {
		return nil, err
	}
	return g.start(r, r.tick)
}

// start arms a new timeout for a tick.
func (g *Group) start(task Task, tick uint64) (*Timeout, error) {
	m := &member{wrap: wrap{task}, group: g}
	g.timer.Init(&m.timeout, m)
	if _, err := m.timeout.reset(tick, false); err != nil {
		return nil, err
	}
	return &m.timeout, nil
}

// Len returns the number of the group's timeouts that are pending. It is exact when no call is
// in progress.
func (g *Group) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.n
}

// Cancel cancels all timeouts of the group that are pending, and returns their number. New ones
// may be armed, and some may be when it returns, if somebody has done so meanwhile.
func (g *Group) Cancel() (n int) {
	g.mu.Lock()
	all := make([]*member, 0, g.n)
	for m := g.first; m != nil; m = m.next {
		all = append(all, m)
	}
	g.mu.Unlock()
	for _, m := range all { // not under the lock, for each is taken off the list
		if m.timeout.Cancel() {
			n++
		}
	}
	return n
}

// Close cancels all timeouts of the group that are pending, returns their number, and has the
// group refuse any others from now on, and any Reset of one that has ended, with ErrGroupClosed.
// Once it has returned no task of the group is started any more; one that was just being started may
// execute its first instruction a moment later, where the processors are busy. Close does not wait for
// tasks that run: for that see Timeout.Wait.
func (g *Group) Close() (n int) {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	n = g.Cancel()
	for g.Len() > 0 {
		// Other goroutines are just arming, canceling or claiming the timeouts that are left. That
		// takes as long as it takes these goroutines to get a processor. What they leave pending is
		// canceled too.
		runtime.Gosched()
		n += g.Cancel()
	}
	g.timer.awaitStarts(0) // of what has left the list by a claim
	return n
}

func (m *member) claim(to *Timeout, word uint64) (claimed uint64) {
	claimed = m.inner().claim(to, word)
	if claimed != 0 && status(claimed) != pending {
		m.leave()
	}
	return claimed
}

// arm puts a member that is not pending on the list, unless the group is closed.
func (m *member) arm(to *Timeout) error {
	g := m.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return ErrGroupClosed
	}
	m.join()
	return m.inner().arm(to)
}

func (m *member) left(to *Timeout, canceled bool) {
	m.leave()
	m.inner().left(to, canceled)
}

// join puts the member on the list. Called with mu held.
func (m *member) join() {
	g := m.group
	if m.armed++; m.armed == 1 {
		m.next = g.first
		if m.next != nil {
			m.next.prev = m
		}
		g.first = m
		g.n++
	}
}

// leave takes the member off the list, after it has ended, or if it was not armed again after all.
func (m *member) leave() {
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
