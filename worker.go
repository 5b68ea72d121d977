package hashedwheel

import (
	"context"
	"math"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashedwheel/hashedwheel/internal/pool"
	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

// Rounds
//
// The worker turns the wheel, in rounds. A timer of the runtime, the alarm, starts a round at a tick boundary, on a
// goroutine that ends with it. So between two rounds there is no goroutine. One atomic word, the state, says who may
// start a round, and makes sure that there is only one at a time:
//
//		           a push, a wakeNow or the alarm
//		idle(tick) ----------------------------> working <---> again   (a wakeNow or the alarm)
//		    ^                                       |
//		    +--------- the round leaves ------------+       each of them --- Stop ---> halted
//
//	  - idle: a round comes at this tick, or earlier, and takes the queue. So a push starts one only if that is too late
//	    for what it pushed. If the queue is empty, the tick is Never: the worker rests, and each push starts a round. If
//	    only far timeouts are on the queue, which stay with producers (intake.go), the worker watches: at the tick it
//	    checks whether producers pause. Otherwise it is the next tick.
//	  - working, again: one goroutine owns all that the worker owns. It takes the queue later, or checks it when it has
//	    left this state. After again it does one more round first.
//	  - halted: Stop owns all that the worker owned.
//
// No wake-up is lost. A producer pushes, and lowers ticks, before it reads the state. The worker sets the alarm and
// changes the state before it checks the queue and those ticks. All of this is sequentially consistent, so either the
// producer finds the new state, or the worker finds the timeout. An alarm that goes off before the state has changed
// changes working to again. A push on a stack that is not empty relies on the push that found it empty.
//
// Where all processors are busy, a goroutine that is preempted, or waits for a garbage collection, waits for 100 ms and
// more until it goes on. So rounds are few and short. First of all a round hands over what is due, which allocates
// nothing. It takes only what is near, unless producers pause. The memory that it needs is kept while the timer is used.
const (
	working = 1 + iota
	again
	halted
	idleShift = iota - 1 // idle states have a tick, which is not 0, in the upper bits
	resting   = uint64(ticks.Never) << idleShift
)

// turning is the lowest bit of worker.position. The other bits are the tick up to which the worker has visited the
// buckets, or is visiting them. The lowest is clear while it rests or watches. If it is set, all later ticks lie ahead,
// unless the worker is late.
const turning = 1

// keepMemory is how long the memory of rounds is kept after the last of them that needed it.
const keepMemory = 300 * time.Millisecond

// A worker turns the wheel of one timer.
type worker struct {
	// Immutable after New.
	labels    context.Context   // its profiler labels
	back      func(to *Timeout) // see wheel
	clock     *ticks.Clock
	queue     *queue
	wheelSize int
	levels    int
	work      func()        // run, made once: a go statement with a method allocates
	done      chan struct{} // closed by the worker when it sees that Stop has halted it

	// Shared.
	state     atomic.Uint64
	position  atomic.Uint64   // see turning
	wakeups   atomic.Uint64   // how often a goroutine was started for rounds; written by the worker
	published publishedLevels // written by the worker or Stop
	yielding  yielding        // whether producers yield to a round, see yieldToWorker

	// Owned by the worker. A change of state hands them over to the next, or to Stop. To read the wheel, hold mu.
	alarm *time.Timer
	mu    sync.Mutex // held by the worker during a round
	wheel *wheel     // nil while there is no wheel

	due, lightDue pool.Feeder[*Timeout] // timeouts that have come due, on their way to Timer.tasks and Timer.light
	emitted       bool                  // a timeout has come due since the end of the last round

	in    intake        // takes timeouts off the queue
	used  time.Duration // when a round last had something to do
	late  workerLateness
	stall stall
}

// run does rounds until there is nothing to do before the alarm. The alarm calls it, by onAlarm, or wake or wakeNow starts it.
func (w *worker) run() {
	pprof.SetGoroutineLabels(w.labels)
	w.wakeups.Add(1)
	for {
		w.state.CompareAndSwap(again, working)
		if w.state.Load() == halted {
			close(w.done)
			return
		}
		until, next := w.round()
		if next != 0 && w.leave(until, next) {
			return
		}
	}
}

// onAlarm is called by the alarm.
func (w *worker) onAlarm() {
	if w.claimRound() {
		w.run()
	}
}

// claimRound reports whether the caller must start a round. If one is in progress, it sees to it that another follows.
func (w *worker) claimRound() bool {
	for {
		switch state := w.state.Load(); state {
		case again, halted:
			return false
		case working:
			if w.state.CompareAndSwap(working, again) {
				return false
			}
		default:
			if w.state.CompareAndSwap(state, working) {
				return true
			}
		}
	}
}

// wakeNow starts a round now, or another one after that in progress.
func (w *worker) wakeNow() {
	if w.claimRound() {
		go w.work()
	}
}

// wakeBy makes sure that a round comes in time for a timeout that is due at tick, and was pushed. Called by any
// goroutine. It panics if the goroutine of a round would be on the other side of a synctest bubble.
func (w *worker) wakeBy(tick uint64) {
	if state := w.state.Load(); w.comesTooLate(state, tick) {
		w.wake(state)
	}
}

// comesTooLate reports whether the worker is idle until after the tick at which it must take a timeout that is due at
// tick: when that becomes near, or the next one.
func (w *worker) comesTooLate(state, tick uint64) bool {
	return state>>idleShift > max(w.queue.nearAt(tick), w.position.Load()>>1+1)
}

// wake starts a round if the state is still the same idle one.
func (w *worker) wake(state uint64) {
	w.clock.Check()
	if w.state.CompareAndSwap(state, working) {
		go w.work()
	}
}

// leave sets the alarm, and makes the worker idle until tick next. It returns false if there must be another round.
func (w *worker) leave(until time.Duration, next uint64) bool {
	if until < math.MaxInt64 {
		until -= w.clock.Elapsed()
		if until <= 0 && runtime.GOMAXPROCS(0) == 1 {
			// The tick is shorter than a round. Otherwise runners wait until the worker is preempted: never on js/wasm.
			runtime.Gosched()
		}
	}
	switch {
	case until == math.MaxInt64:
		if w.alarm != nil {
			w.alarm.Stop()
			w.alarm = nil
		}
	case w.alarm == nil:
		w.alarm = time.AfterFunc(until, w.onAlarm)
	default:
		w.alarm.Reset(until)
	}
	atNext := w.position.Load()>>1 + 1
	state := next << idleShift
	if !w.state.CompareAndSwap(working, state) { // after this the worker owns nothing
		return false
	}
	return next <= atNext || next <= w.queue.needs() || !w.state.CompareAndSwap(state, working)
}

// halt ends the rounds. Then the caller owns the worker's fields.
func (w *worker) halt() {
	if state := w.state.Swap(halted); state == working || state == again {
		<-w.done
	}
	if w.alarm != nil {
		w.alarm.Stop()
	}
}

// round does all that is due now. It returns the time of the next round, and the tick at which that takes the queue: 0 if
// it is to come at once.
func (w *worker) round() (until time.Duration, next uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wheel == nil {
		w.wheel = newWheel(w.wheelSize, w.levels, w.clock.Now())
		w.wheel.back = w.back
	}
	w.in.drain()
	w.handOver()
	more := w.wheel.cascade(w.emit)
	w.handOver()
	w.published.store(w.wheel)
	elapsed := w.clock.Elapsed()
	w.late.report(elapsed)
	if more {
		return 0, 0 // the next round also does what has come due meanwhile
	}
	check := w.stall.check(elapsed, w.emitted)
	until, next = w.planNext(elapsed)
	return min(until, check), next
}

// planNext is the end of a round. It returns what round does.
func (w *worker) planNext(elapsed time.Duration) (until time.Duration, next uint64) {
	busy := w.in.reconciled > 0 || w.emitted
	w.emitted = false
	if busy {
		w.used = elapsed
	} else {
		w.wheel.refresh()
	}
	next = w.wheel.now + 1
	needs := w.queue.needs()
	if busy || w.wheel.next <= next && w.clock.Tick <= maxWaiting || needs <= w.clock.TickAt(elapsed) {
		// More is likely to follow, and being woken for it costs more than a round at the next boundary.
		return min(w.clock.Boundary(next), later(elapsed, maxWaiting)), next
	}
	w.setPosition(w.wheel.now, 0)
	if needs < ticks.Never {
		watch := w.clock.TickAt(later(elapsed, w.in.pace.interval(w.clock.Tick)))
		next = min(max(next, watch), w.wheel.next, needs)
		return min(w.clock.Boundary(next), later(elapsed, maxWaiting)), next
	}
	until = w.clock.Boundary(w.wheel.next)
	if w.wheel.count == 0 && !w.stall.waits {
		if until = later(w.used, keepMemory); until <= elapsed {
			until = math.MaxInt64
			if !w.releaseMemory() {
				return 0, 0
			}
		}
	}
	return until, ticks.Never
}

// releaseMemory gives back the memory that is kept for rounds. Nothing is pending. It returns false if a timeout has come
// meanwhile.
func (w *worker) releaseMemory() bool {
	reconciled := w.in.reconciled
	for i := range w.queue.stripes {
		w.in.giveBack(&w.queue.stripes[i])
	}
	if w.in.reconciled != reconciled {
		w.handOver() // in this round, because a walk may come before the next
		return false
	}
	w.wheel = nil
	w.published.store(nil)
	w.due.Trim()
	w.lightDue.Trim()
	return true
}

func (w *worker) setPosition(tick, flag uint64) { change(&w.position, tick<<1|flag) }

// isNear reports whether a timeout that is due at tick is near: see intake.go.
func (w *worker) isNear(tick uint64) bool { return tick <= w.position.Load()>>1+w.queue.horizon }

var _ reconciler = (*worker)(nil)

// expireDue advances the wheel to the current tick, and hands over what has come due.
func (w *worker) expireDue() (now uint64, stopped bool) {
	elapsed := w.clock.Elapsed()
	now = w.clock.TickAt(elapsed)
	if due := w.wheel.next; due <= now {
		w.late.add(elapsed - w.clock.Boundary(due))
	}
	w.setPosition(now, turning)
	w.wheel.advance(now, w.emit)
	w.handOver()
	w.published.store(w.wheel)
	return w.wheel.now, w.state.Load() == halted
}

func (w *worker) reconcile(to *Timeout, word uint64) {
	if to.bucket == listed && waits(word) && word&moved == 0 {
		to.bucket = 0 // its runner has claimed it, and armed it for the next run
	}
	switch tick := tickOf(word); {
	case !waits(word):
		w.remove(to)
	case tick <= w.wheel.now:
		w.remove(to)
		if word&(moved|fresh) == fresh { // others have waited for a runner, or repeat and are behind
			w.late.add(w.clock.Boundary(w.wheel.now) - w.clock.Boundary(tick))
		}
		w.emit(to)
	case to.bucket == 0 || to.bucket == listed:
		w.remove(to)
		w.wheel.place(to, tick)
	default:
		w.wheel.move(to, tick)
	}
}

// remove takes a timeout out of its bucket, or off the list of its pool. A runner may still have it in its batch.
func (w *worker) remove(to *Timeout) {
	switch to.bucket {
	case 0:
	case listed:
		w.feeder(to).Remove(to, to.pos)
		to.bucket = 0
	default:
		w.wheel.remove(to)
	}
}

// emit gives a timeout that is due to the feeder of its pool.
func (w *worker) emit(to *Timeout) {
	w.emitted = true
	f := w.feeder(to)
	to.bucket, to.pos = listed, f.Position()
	f.Add(to)
}

func (w *worker) feeder(to *Timeout) *pool.Feeder[*Timeout] {
	if h := to.hook(); h != nil && h.light() {
		return &w.lightDue
	}
	return &w.due
}

func (w *worker) handOver() {
	w.due.Flush()
	w.lightDue.Flush()
}

// A yielding decides whether producers yield the processor to a round. It is shared by all of them. Its zero value is ready for
// use.
//
// A goroutine that is preempted goes to the end of the run queue, even if a garbage collection stops it only for a
// moment. There it waits until all that are ahead of it have used up their time slices. If they yield, it waits for less
// than a millisecond, and this costs them nothing. But goroutines that compute do not yield, and who yields to them
// waits for the time slices of them all. So if the round has not gone on after yieldFor, producers leave it to the
// scheduler for a backoff, which doubles each time. If two of them write that at the same time, the times are less exact.
type yielding struct {
	from, backoff atomic.Int64 // when they last began to yield, and for how long they do not begin again
}

const (
	yieldFor   = 5 * time.Millisecond // dozens of goroutines need less than 1 ms to yield one after another
	minBackoff = time.Second          // how long they do not yield after that has not helped
	maxBackoff = time.Minute          // the same, after it has not helped many times in a row
)

// yields reports whether the caller should yield. Late says whether a round is overdue at the time now.
func (y *yielding) yields(now time.Duration, late bool) bool {
	from, backoff := time.Duration(y.from.Load()), time.Duration(y.backoff.Load())
	yields := now < from+yieldFor
	switch {
	case !yields && now < from+backoff:
		return false
	case !yields && late:
		y.from.Store(int64(now))
		y.backoff.Store(int64(min(max(minBackoff, 2*backoff), maxBackoff)))
	case yields && !late:
		y.backoff.Store(0) // it has helped
	}
	return late
}
