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
	"github.com/hashedwheel/hashedwheel/internal/warn"
)

// Rounds
//
// The worker turns the wheel, in rounds. A timer of the runtime, the alarm, starts a round, most often at a tick boundary.
// The goroutine of a round ends with it. So between two rounds there is none. One atomic word, the state, makes sure that
// there is only one round at a time:
//
//	           wakeFor, wakeNow, yieldTo or the alarm
//	idle(looksBy) -------------------------> working <---> workingAgain   (a wakeNow or the alarm)
//	    ^                                       |
//	    +--------- the round leaves ------------+       each of them --- Stop ---> halted
//
// In these states:
//
//   - idle: the next round comes at tick looksBy or earlier, and takes what is near from the queue. Arming, Cancel and Reset
//     start an earlier round in three cases: looksBy is too late for the timeout (wakeFor) or for a full inbox
//     (relieveInbox), or the round is overdue (yieldTo). While there is something to do, looksBy is progress.nextTick(). If
//     only far timeouts are on the queue, the worker watches: looksBy is the tick of the next sweep (intake.go), or the one
//     at which the first of them becomes near. If the queue is empty, the worker rests: looksBy is Never, and a call that
//     needs a round starts it. The wheel may still have timeouts, for which the alarm is set.
//   - working, workingAgain: one goroutine owns all that the worker owns. It has yet to take the queue, or to check it after
//     leaving this state. After workingAgain it first does one more round.
//   - halted: Stop owns all that the worker owned.
//
// No wake-up is lost: see goIdle.
//
// Where all processors are busy, a goroutine that is preempted, or stopped for a garbage collection, goes on only when
// others have used up their time slices. If this stops a goroutine after it changes the state to working, before its go
// statement, the whole timer waits for it. So rounds are few and short. A round first hands over what is due. Then it takes
// what is near, and sweeps, some at a time. The worker keeps the memory of rounds while the timer is used, so a round
// allocates only when it needs more than an earlier one. Its calls are few enough for the stack of a new goroutine: see
// TestRoundsFitAFreshStack.
const (
	working = 1 + iota
	workingAgain
	halted
	idleShift = 2 // idle states have a tick, which is not 0, above the two bits of the others
	resting   = uint64(ticks.Never) << idleShift
)

// isIdle reports whether the worker is idle in a state.
func isIdle(state uint64) bool { return state > halted }

// maxWaiting is the longest time from a round that had something to do until the next one, in a long tick.
const maxWaiting = 250 * time.Millisecond

// keepMemory is how long the worker keeps the memory of rounds after the last round that had something to do.
const keepMemory = 300 * time.Millisecond

// A worker turns the wheel of one timer.
type worker struct {
	// Immutable after New.
	labels    context.Context // its profiler labels
	clock     *ticks.Clock
	queue     *queue
	wheelSize int
	levels    int
	work      func()        // run, made once: a go statement with a method allocates
	done      chan struct{} // closed by the worker when it sees that Stop has halted it

	// Shared.
	state     atomic.Uint64
	progress  progress
	wakeups   atomic.Uint64   // how often a goroutine was started for rounds; written by the worker
	published publishedLevels // written by the worker or Stop
	handedAt  atomic.Int64    // the last time at which expireDue saw no starting runner; a runner that is starting now was started after it

	// Owned by the worker. A change of state hands them over to the next, or to Stop. To read the wheel, hold mu.
	alarm *time.Timer
	mu    sync.Mutex // held by the worker during a round
	wheel *wheel     // nil while there is no wheel

	due, lightDue pool.Feeder[*Timeout] // timeouts that have come due, on their way to Timer.tasks and Timer.light
	emitted       int                   // timeouts that have come due since planNext was last called
	listing       uint32                // what listedAt returns for what comes due now

	// What is taken off the queue: see intake.go.
	stacks   []*Timeout // inboxes, the newest last; none at the end of a round, unless Stop has halted the worker
	near     []blockAt
	sweeps   []sweep
	lookedAt uint64        // the tick of the last look
	emptyAt  time.Duration // when a look last found no stacks left
	sweepAt  time.Duration // the time of the next sweep
	found    int           // slots and links of inboxes that led to a timeout, even one that has left, since planNext was last called
	popped   atomic.Uint64 // timeouts taken from inboxes

	used time.Duration // when a round last had something to do

	// What is in the log when tasks are late, wait or do not return: see Timer.warn.
	late  warn.Lateness
	waits warn.Waits
	calls warn.Calls                                 // all but its method Due is guarded by Timer.looking
	warn  func(r ending) (until, line time.Duration) // Timer.warn

	lookUp func(begins bool) // for tests: called when a round begins, and before each further expireDue of the round
}

// run does rounds until there is nothing to do before the alarm. Called by onAlarm, or started by wake or wakeNow.
func (w *worker) run() {
	pprof.SetGoroutineLabels(w.labels)
	w.wakeups.Add(1)
	for {
		w.state.CompareAndSwap(workingAgain, working) // before the round: a later wakeNow asks for another one
		if w.state.Load() == halted {
			close(w.done) // Stop owns the fields from here on
			return
		}
		until, looksBy := w.round()
		switch {
		case looksBy == 0:
			yieldIfAlone() // many rounds may follow
		case w.goIdle(until, looksBy):
			return
		}
	}
}

// onAlarm is called by the alarm.
func (w *worker) onAlarm() {
	if w.requestRound() {
		w.run()
	}
}

// requestRound reports whether the caller must start a round. If one is in progress, another one follows it.
func (w *worker) requestRound() bool {
	for {
		switch state := w.state.Load(); state {
		case workingAgain, halted:
			return false
		case working:
			if w.state.CompareAndSwap(working, workingAgain) { // after this, goIdle fails
				return false
			}
		default:
			if w.state.CompareAndSwap(state, working) { // after this, the caller owns the fields of the worker
				return true
			}
		}
	}
}

// wakeNow starts a round now, or after the round in progress. Unlike wakeFor it does not wait for the next boundary. On the
// wrong side of a synctest bubble it panics.
func (w *worker) wakeNow() {
	w.clock.Check()
	if w.requestRound() {
		go w.work()
	}
}

// wakeFor makes sure that a round comes in time for a timeout that is due at a tick, or by the next boundary if due is soon.
// Called by any goroutine, after it has put a timeout onto the queue or changed the word: see goIdle. If a round would be on
// the wrong side of a synctest bubble, wakeFor panics.
func (w *worker) wakeFor(due uint64) {
	if state := w.state.Load(); w.comesTooLate(state, due) {
		w.wake(state)
	}
}

// comesTooLate reports whether the worker, in this state, is idle for too long to take a timeout that is due at tick. It
// must take the timeout when that becomes near, but not before the boundary after its last round:
//
//	it rests                     always too long, because its tick is Never
//	it watches until a tick      too long if the timeout becomes near before that
//	it comes at the next tick    never too long
//	it is not idle               the same: the state has no tick, and shifts to 0
func (w *worker) comesTooLate(state, tick uint64) bool {
	return state>>idleShift > max(w.queue.nearAt(tick), w.progress.nextTick())
}

// wake starts a round if the state is still the same idle one. A caller that is preempted before its go statement holds up the
// timer. Starting the goroutine first would cost one for each caller, until the first of them runs.
func (w *worker) wake(state uint64) {
	w.clock.Check() // before the state changes, because it may panic
	if w.state.CompareAndSwap(state, working) {
		go w.work()
	}
}

// goIdle sets the alarm, and makes the worker idle until tick looksBy. It returns false if there must be another round.
func (w *worker) goIdle(until time.Duration, looksBy uint64) bool {
	if until < math.MaxInt64 {
		until -= w.clock.Elapsed()
		if until <= 0 {
			yieldIfAlone() // the tick is shorter than a round
		}
	}
	// 1. Set the alarm. If it goes off before 2, it changes the state to workingAgain, and 2 fails.
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
	atNext, state := w.progress.nextTick(), looksBy<<idleShift
	// 2. Become idle. After this the worker owns nothing.
	if !w.state.CompareAndSwap(working, state) {
		return false
	}
	// 3. Check the queue, unless a round comes at the next boundary: with 2, this is line A of ring. A producer fills a slot and
	// lowers the ticks of its block and its ring, or pushes onto an inbox, before it reads the state. So either it reads the
	// state of 2, or 3 finds the ring's tick, or the inbox.
	return looksBy <= atNext || looksBy <= w.queue.needs() || !w.state.CompareAndSwap(state, working)
}

// yieldIfAlone yields the only processor. Otherwise runners would wait until the worker is preempted. On js/wasm it never is.
func yieldIfAlone() {
	if runtime.GOMAXPROCS(0) == 1 {
		runtime.Gosched()
	}
}

// halt ends the rounds. Then the caller owns the worker's fields.
func (w *worker) halt() {
	if state := w.state.Swap(halted); state == working || state == workingAgain {
		<-w.done // run sees the state before its next round, because goIdle fails
	}
	if w.alarm != nil {
		w.alarm.Stop()
	}
}

// An ending is what Timer.warn is told at the end of a round. What a round leaves to the next one counts for both.
type ending struct {
	elapsed time.Duration
	behind  bool // the round leaves something to the next one
	emitted bool // timeouts have come due since planNext was last called
	busy    bool // the same, or timeouts have left the queue
}

// round does all that is due now. It returns the time of the next round, and looksBy: the tick by which a round takes the queue.
// If the next round comes at once, looksBy is 0. If the queue is empty, looksBy is Never.
func (w *worker) round() (until time.Duration, looksBy uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wheel == nil {
		w.wheel = newWheel(w.wheelSize, w.levels, w.clock.Now())
		w.wheel.emit, w.wheel.putOff = w.emit, (*Timeout).putOff
	}
	passed := w.drain()
	w.handOver()
	cascades := w.wheel.cascade()
	w.handOver()
	w.published.store(w.wheel)
	elapsed := w.clock.Elapsed()
	behind := w.leftOver() || w.wheel.isBehind()
	check, line := w.warn(ending{elapsed: elapsed, behind: behind, emitted: w.emitted > 0, busy: w.emitted > 0 || w.found > 0})
	if passed || behind || cascades {
		return 0, 0 // the next round also does what has come due meanwhile
	}
	if until, looksBy = w.planNext(elapsed); until < math.MaxInt64 { // otherwise nothing is left to do
		until = min(until, line)
	}
	return min(until, check), looksBy
}

// planNext ends a round, and returns what round returns:
//
//	what waits                             the next round                      it takes the queue by
//	the round had something to do, or      the next boundary, or in            the next boundary
//	something is near or on an inbox,      maxWaiting if that is earlier
//	or is due at the next boundary of a
//	short tick
//	far timeouts on the queue              the next sweep, or before, for one  the same
//	                                       that becomes near or is due
//	the wheel only                         when it has something to do         Never: what is armed starts a round
//	nothing, for less than keepMemory      when that is over                   Never
//	nothing                                none                                Never
func (w *worker) planNext(elapsed time.Duration) (until time.Duration, looksBy uint64) {
	busy := w.found > 0 || w.emitted > 0
	w.found, w.emitted = 0, 0
	if busy {
		w.used = elapsed
	} else {
		w.wheel.refresh()
	}
	next := w.wheel.now + 1
	needs := w.queue.needs()
	if busy || w.wheel.nextVisit <= next && w.clock.Tick <= maxWaiting || needs <= w.clock.TickAt(elapsed) {
		// More is likely to follow, and being woken for it costs more than a round at the next boundary.
		return min(w.clock.Boundary(next), ticks.Later(elapsed, maxWaiting)), next
	}
	w.progress.set(w.wheel.now, false) // before goIdle, after which the worker no longer owns it
	if needs < ticks.Never {
		looksBy = min(max(next, w.clock.TickAt(w.sweepAt)+1), w.wheel.nextVisit, needs)
		return min(w.clock.Boundary(looksBy), w.sweepAt), looksBy
	}
	until = w.clock.Boundary(w.wheel.nextVisit)
	if w.wheel.count == 0 && !w.waits.Any() {
		if until = ticks.Later(w.used, keepMemory); until <= elapsed {
			until = math.MaxInt64
			if !w.releaseMemory() {
				return 0, 0
			}
		}
	}
	return until, ticks.Never
}

// releaseMemory gives back the memory that is kept for rounds. Called when nothing is on the queue or in the wheel. It returns
// false if a slot has led to a timeout meanwhile, and then another round must follow.
func (w *worker) releaseMemory() bool {
	found := w.found
	w.giveBack() // goIdle finds what is put there after this
	if w.found != found {
		w.handOver() // in this round, because a walk may come before the next
		return false
	}
	w.wheel = nil
	w.published.store(nil)
	return true
}

// expireDue advances the wheel to the current tick, and hands over what has come due, or some of it if more is true. It returns
// the tick, and whether Stop has halted the worker.
func (w *worker) expireDue() (now uint64, more, stopped bool) {
	elapsed := w.clock.Elapsed()
	now, w.listing = w.clock.TickAt(elapsed), listedAt(elapsed)
	if !w.runnerStarts() {
		w.handedAt.Store(int64(elapsed)) // before the wheel emits timeouts, because the first chunk of them starts a runner
	}
	w.progress.set(now, true) // before the wheel emits timeouts, so that from then on a Reset of them is queued
	next, emitted := w.wheel.nextVisit, w.emitted
	w.wheel.advance(now)
	// If something was emitted, the worker counts as late since the first tick that it had to visit. That may be the tick of a
	// canceled timeout.
	if w.emitted > emitted && now >= next {
		w.late.Add(elapsed - w.clock.Boundary(next))
	}
	w.handOver()
	w.published.store(w.wheel)
	return w.wheel.now, w.wheel.isBehind(), w.state.Load() == halted
}

// reconcile places, moves, removes or emits a timeout that comes off the queue, as its word says. The caller read word
// before it took the timeout off the queue. If the timeout is at work or has ended, reconcile only removes it. The runner of
// a timeout at work arms it.
func (w *worker) reconcile(to *Timeout, word uint64) {
	if taken := word &^ (young | hurried | queued); waits(word) && tickOf(word) <= w.wheel.now && to.putOff(taken) {
		word = to.word.Load()
	}
	switch tick := tickOf(word); {
	case !waits(word):
		w.remove(to)
	case tick <= w.wheel.now:
		w.remove(to)
		// Only a new timeout that was never reset shows that the worker is late. Others may have waited for a runner, repeat
		// and be behind, or have been reset to a tick that has passed.
		if word&(moved|young) == young {
			w.late.Add(w.clock.Boundary(w.wheel.now) - w.clock.Boundary(tick))
		}
		w.emit(to)
	case to.bucket == 0 || to.isListed():
		w.remove(to)
		w.wheel.place(to, tick)
	default:
		w.wheel.move(to, tick)
	}
}

// remove takes a timeout out of its bucket, or off the list of its pool. A runner may have taken it.
func (w *worker) remove(to *Timeout) {
	switch {
	case to.bucket == 0:
	case to.isListed():
		w.feeder(to).Remove(to, to.pos)
		to.bucket = 0
	default:
		w.wheel.remove(to)
	}
}

// emit gives a timeout that is due to the feeder of its pool. It is also wheel.emit.
func (w *worker) emit(to *Timeout) {
	w.emitted++
	f := w.feeder(to)
	to.bucket, to.pos = w.listing, f.Position()
	f.Add(to)
}

func (w *worker) feeder(to *Timeout) *pool.Feeder[*Timeout] {
	if to.isLight() {
		return &w.lightDue
	}
	return &w.due
}

func (w *worker) handOver() {
	w.due.Flush()
	w.lightDue.Flush()
}

// runnerStarts reports whether a runner was started that has not had a processor yet.
func (w *worker) runnerStarts() bool { return w.due.Starting() || w.lightDue.Starting() }
