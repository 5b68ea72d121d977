package hashedwheel

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashedwheel/hashedwheel/internal/due"
	"github.com/hashedwheel/hashedwheel/internal/ticks"
	"github.com/hashedwheel/hashedwheel/internal/warn"
)

// waitingKeys says how many keys wait, and which of their queues has the one that has waited for longest.
type waitingKeys struct {
	keys    int           // in all queues
	longest time.Duration // how long the first has waited
	limit   int           // keyed.WithConcurrency of its queue
}

// handling has the timeouts for which calls of the panic handler are in progress.
type handling struct {
	mu    sync.Mutex
	calls map[*Timeout][]time.Duration // when each call began; nil until the first
}

// begin notes that a call for a timeout begins. Elapsed is the present time.
func (h *handling) begin(to *Timeout, elapsed time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.calls == nil {
		h.calls = make(map[*Timeout][]time.Duration)
	}
	h.calls[to] = append(h.calls[to], elapsed)
}

// end notes that a call has returned, given when it began.
func (h *handling) end(to *Timeout, began time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	calls := h.calls[to]
	if i := slices.Index(calls, began); len(calls) > 1 {
		h.calls[to] = slices.Delete(calls, i, i+1)
	} else {
		delete(h.calls, to)
	}
}

// since returns when the first of the calls for a timeout began that are in progress, if any are.
func (h *handling) since(to *Timeout) (began time.Duration, found bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if calls := h.calls[to]; len(calls) > 0 {
		return slices.Min(calls), true
	}
	return 0, false
}

// briefs counts the calls in progress that should be brief in each program: Next, Canceled, the panic handler, and WaitRunning. While
// there is one for long, it has the timer look, also if no round comes.
//
// A call that returns soon costs two additions. The first call arms a timer of the runtime, the alarm, for a second:
//
//	off ---begin---> aSecond ---alarm: looks---> aMinute ---alarm: looks---> off
//	 ^                  |                         |  ^                       |
//	 +--alarm: no call--+---- the last call ends--+  +--the look asks for it-+
//
// So a second after the last call the runtime has no timer.
type briefs struct {
	look  func() // Timer.lookSoon; immutable after New, as the next
	clock *ticks.Clock

	n     atomic.Int64 // calls in progress
	stuck atomic.Int64 // those of them that the last look has found in progress for a minute
	state atomic.Int32 // written with mu held

	mu    sync.Mutex
	alarm *time.Timer // nil until the first call
}

const (
	off     = iota
	aSecond // a call has begun
	aMinute // a call was in progress a second later
)

// stuckCalls returns Stats.Stuck. Some of the calls that the last look has found may have returned since, so the result is at most
// the number of calls in progress.
func (b *briefs) stuckCalls() int { return int(min(b.stuck.Load(), b.n.Load())) }

// begin is called when a call begins. Each begin needs an end.
func (b *briefs) begin() {
	b.n.Add(1)
	if b.state.Load() == off {
		b.arm(aSecond)
	}
}

// end is called when a call has returned.
func (b *briefs) end() {
	if b.n.Add(-1) == 0 && b.state.Load() == aMinute {
		b.disarm()
	}
}

// arm arms the alarm, unless it is armed. On the other side of a synctest bubble it does nothing.
func (b *briefs) arm(state int32) {
	if b.clock.Foreign() {
		return
	}
	wait := time.Second
	if state == aMinute {
		wait = warn.LongRun
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.state.Load() != off:
		return
	case b.alarm == nil:
		b.alarm = time.AfterFunc(wait, b.onAlarm)
	default:
		b.alarm.Reset(wait)
	}
	b.state.Store(state)
	b.disarmIfIdle() // the last call may have ended before it could see the state
}

// disarm stops the alarm if no call is in progress. On the other side of a synctest bubble it does nothing.
func (b *briefs) disarm() {
	if !b.clock.Foreign() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.disarmIfIdle()
	}
}

// disarmIfIdle is disarm with mu held.
func (b *briefs) disarmIfIdle() {
	for b.state.Load() == aMinute && b.n.Load() == 0 {
		b.state.Store(off) // before it reads n again: a call that begins now arms the alarm, or is counted
		if b.n.Load() == 0 {
			b.alarm.Stop()
			return
		}
		b.state.Store(aMinute) // before it reads n again: the last call may have ended while it saw off
	}
}

// onAlarm is called by the alarm.
func (b *briefs) onAlarm() {
	b.mu.Lock()
	state := b.state.Load()
	b.state.Store(off) // before it reads n: a call that begins now arms the alarm, or is counted
	b.mu.Unlock()
	switch {
	case state == aMinute:
		b.look()
	case b.n.Load() > 0:
		b.look() // from now on the timer knows the calls
		b.arm(aMinute)
	}
}

// queues has the queues in which keys of package keyed wait.
type queues struct {
	mu  sync.Mutex
	all map[due.Queue]struct{} // without those in which none wait; nil until the first
}

func (q *queues) hold(queue due.Queue) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.all == nil {
		q.all = make(map[due.Queue]struct{})
	}
	q.all[queue] = struct{}{}
}

func (q *queues) release(queue due.Queue) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.all, queue)
}

func (q *queues) waiting() (w waitingKeys) {
	q.mu.Lock()
	all := slices.Collect(maps.Keys(q.all))
	q.mu.Unlock() // a queue has a lock of its own, which is taken first when it calls hold
	for _, queue := range all {
		keys, longest, limit := queue.Waiting()
		w.keys += keys
		if keys > 0 && longest >= w.longest {
			w.longest, w.limit = longest, limit
		}
	}
	return w
}
