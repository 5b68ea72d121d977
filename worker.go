package hashedwheel

import (
	"context"
	"math"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashedwheel/hashedwheel/internal/crew"
	"github.com/hashedwheel/hashedwheel/internal/ticks"
)

// Presence
//
// The worker is the one goroutine that turns the wheel. It exists only while something is on the queue or the wheel,
// and sleeps while nothing comes due. One atomic word, its presence, holds its state:
//
//	absent --- summon: starts it ---> awake --- Stop ---> halted
//	   ^                              ^  |
//	   |      the wheel is empty      |  |
//	   +------------------------------|--+
//	                                  |  |  nothing due at the next boundary
//	          summon: wakes it        |  v
//	                                asleep
//
// No wake-up is lost. A producer pushes before it reads the presence. The worker changes the presence before it
// checks the queue. All of this is sequentially consistent, so either the producer finds the worker idle, or the
// worker finds the timeout. A push on a stack that is not empty relies on the push that found it empty.
//
//   - awake: the worker takes the queue at the next boundary, or checks it after it has left this state, so a push
//     need not do anything.
//   - asleep, absent: a push that finds its stack empty changes the state to awake, and wakes or starts the worker. So
//     does a pruning that has put timeouts back. A sleeping worker whose alarm goes off does it itself.
//   - halted: Stop, which changes every state to halted, owns everything that the worker owned.
const (
	absent = iota
	awake
	asleep
	halted
)

// attending is the lowest bit of worker.position. The other bits are the tick up to which the worker has visited the
// buckets, or is visiting them. The lowest is set while it is awake: then all later ticks lie ahead, or nearly so.
const attending = 1

const (
	// worthPlacing is the number of pending timeouts on the queue at which a producer wakes the worker early. A
	// producer checks one stripe, for an equal share of twice this number: after pruning, half may be canceled.
	worthPlacing = 1 << 18

	checkEvery = 1 << 10                // timeouts that drain takes between looks at the clock: some 50 microseconds
	maxAwake   = 500 * time.Millisecond // bounds how long the worker stays awake in a long tick
	tooLate    = time.Second            // the worker logs a warning about timeouts that are later than this
)

// A worker turns the wheel of one timer.
type worker struct {
	// Immutable after New.
	labels    context.Context          // its profiler labels
	warn      func(late time.Duration) // warns that timeouts were late
	clock     *ticks.Clock
	queue     *queue
	wheelSize int
	levels    int
	wake      chan struct{} // one token is enough, because the worker checks everything when it wakes
	done      chan struct{} // closed by the worker when it sees that Stop has halted it

	// Shared.
	presence atomic.Uint32
	position atomic.Uint64 // see attending
	wakeups  atomic.Uint64 // how often the worker has waited; written by the worker
	taken    atomic.Uint64 // timeouts that the worker or Stop has taken off the queue
	shown    levelsShown   // written by the worker or Stop

	// Owned by the worker. A change of presence hands them over to the next, or to Stop. To read the wheel, hold mu.
	mu    sync.Mutex // held by the worker, except while it waits
	wheel *wheel     // nil while there is no wheel

	due, ownDue crew.Feeder[*Timeout] // timeouts that have come due, on their way to Timer.tasks and Timer.own
	emitted     bool                  // a timeout has come due in this round

	late   time.Duration // the worst lateness since the last call of warnIfLate
	warnAt time.Duration // when the worker may log the next warning
}

// run is the worker's goroutine. docs/guide.md promises its name, for goleak.
func (w *worker) run() {
	pprof.SetGoroutineLabels(w.labels)
	alarm := time.NewTimer(math.MaxInt64)
	defer alarm.Stop()
	for w.presence.Load() != halted {
		until, gone := w.round()
		if gone {
			return
		}
		if until > 0 {
			w.wait(alarm, until)
		}
	}
	close(w.done)
}

// round does all that is due now. It returns the time until which to wait, or 0 if there is more to do. If gone is
// true, the worker has ended and owns nothing any more.
func (w *worker) round() (until time.Duration, gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wheel == nil {
		w.wheel = newWheel(w.wheelSize, w.levels, w.clock.Now())
	}
	w.emitted = false
	w.turn()
	taken := w.drain()
	more := w.wheel.cascade(w.emit)
	w.handOver()
	w.shown.show(w.wheel)
	elapsed := w.clock.Elapsed()
	w.warnIfLate(elapsed)
	if more {
		return 0, false // the next round also does what has come due meanwhile
	}
	if taken == 0 {
		w.wheel.refresh()
	}
	next := w.wheel.now + 1
	until = w.clock.Boundary(next)
	switch {
	case taken == 0 && !w.emitted && (w.wheel.next > next || w.clock.Tick > maxAwake):
		// The queue was empty and nothing was or is due, so the worker goes idle. Otherwise it stays awake, because
		// more timeouts are likely to follow, and being woken for them costs more than checking at the next tick.
		next, gone = w.goIdle(next)
		until = w.clock.Boundary(next)
		if w.presence.Load() == awake { // it has not gone idle after all
			until = min(until, later(elapsed, maxAwake))
		}
	default:
		until = min(until, later(elapsed, maxAwake))
	}
	return until, gone
}

// later returns elapsed + d, or the longest Duration if that would overflow.
func later(elapsed, d time.Duration) time.Duration {
	if d > math.MaxInt64-elapsed {
		return math.MaxInt64
	}
	return elapsed + d
}

// goIdle makes the presence asleep or absent, and returns the tick to wait for: next, if there is something to do.
func (w *worker) goIdle(next uint64) (until uint64, gone bool) {
	wheel, state := w.wheel, uint32(asleep)
	w.setPosition(wheel.now, 0)
	if wheel.count == 0 {
		state = absent
		w.wheel = nil
		w.shown.show(nil)
	}
	if !w.presence.CompareAndSwap(awake, state) { // after this, if absent, the worker owns nothing
		return next, false // halted
	}
	if w.queue.empty() {
		return wheel.next, state == absent
	}
	if w.presence.CompareAndSwap(state, awake) {
		w.setPosition(wheel.now, attending)
		return next, false // the worker owns its fields, again if it was absent
	}
	// Another goroutine has started another worker, or has woken or halted this one, and a nudge is on its way.
	return wheel.next, state == absent
}

// wait returns when until has elapsed since New (never for the longest Duration), when nudge is called, or early.
func (w *worker) wait(alarm *time.Timer, until time.Duration) {
	if until < math.MaxInt64 {
		until -= w.clock.Elapsed()
	}
	if until <= 0 && runtime.GOMAXPROCS(0) == 1 {
		// The tick is shorter than a round. Otherwise runners wait until the worker is preempted: never on js/wasm.
		runtime.Gosched()
	}
	alarm.Reset(until)
	select {
	case <-alarm.C:
	case <-w.wake:
	}
	w.wakeups.Add(1)
	w.presence.CompareAndSwap(asleep, awake)
}

// turn advances the wheel to the current tick, and hands over what has come due.
func (w *worker) turn() {
	elapsed := w.clock.Elapsed()
	now := w.clock.TickAt(elapsed)
	if due := w.wheel.next; due <= now {
		w.late = max(w.late, elapsed-w.clock.Boundary(due))
	}
	w.setPosition(now, attending)
	w.wheel.advance(now, w.emit)
	w.handOver()
}

func (w *worker) setPosition(tick uint64, flag uint64) {
	position := tick<<1 | flag
	if p := &w.position; p.Load() != position {
		p.Store(position)
	}
}

// warnIfLate logs a warning if timeouts were very late: the machine was suspended, or is far too busy.
func (w *worker) warnIfLate(elapsed time.Duration) {
	if w.late > tooLate && elapsed >= w.warnAt {
		w.warnAt = elapsed + tooLate
		w.warn(w.late)
	}
	w.late = 0
}

// drain takes all timeouts off the queue, settles them, and returns their number. It does not delay due ticks.
func (w *worker) drain() (taken int) {
	for i := range w.queue.stripes {
		for list := range w.queue.stripes[i].takeAll((*stack).take) {
			for list != nil {
				var to *Timeout
				to, list = unlink(list)
				w.settle(to)
				if taken++; taken%checkEvery == 0 {
					w.taken.Add(checkEvery)
					w.turn()
					w.shown.show(w.wheel)
				}
			}
		}
	}
	w.taken.Add(uint64(taken % checkEvery))
	w.handOver()
	return taken
}

// settle places, moves, removes or emits a timeout that comes off the queue, as its word says.
func (w *worker) settle(to *Timeout) {
	word := to.takeOff(queued | fresh) // from here on other goroutines may push it again
	if to.bucket == listed && waits(word) && word&moved == 0 {
		to.bucket = 0 // its runner has claimed it, and armed it for the next run
	}
	switch tick := tickOf(word); {
	case !waits(word):
		w.remove(to)
	case tick <= w.wheel.now:
		w.remove(to)
		if word&moved == 0 { // if it was reset, it may have waited on the list of its crew until now
			w.late = max(w.late, w.clock.Boundary(w.wheel.now)-w.clock.Boundary(tick))
		}
		w.emit(to)
	case to.bucket == 0 || to.bucket == listed:
		w.remove(to)
		w.wheel.place(to, tick)
	default:
		w.wheel.move(to, tick)
	}
}

// remove takes a timeout out of its bucket, or off the list of its crew. A runner may still have it in its group.
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

// emit gives a timeout that is due to the feeder of its crew.
func (w *worker) emit(to *Timeout) {
	w.emitted = true
	f := w.feeder(to)
	to.bucket, to.pos = listed, f.Position()
	f.Add(to)
}

func (w *worker) feeder(to *Timeout) *crew.Feeder[*Timeout] {
	if h := to.hook(); h != nil && h.own() {
		return &w.ownDue
	}
	return &w.due
}

func (w *worker) handOver() {
	w.due.Flush()
	w.ownDue.Flush()
}

// summon makes sure that the worker takes the queue at the next boundary. Called after a push, by any goroutine.
func (w *worker) summon() {
	for {
		switch w.presence.Load() {
		case awake, halted:
			return
		case asleep:
			if w.presence.CompareAndSwap(asleep, awake) {
				w.nudge()
				return
			}
		case absent:
			if w.presence.CompareAndSwap(absent, awake) { // the new worker owns the worker's fields
				go w.run()
				return
			}
		}
	}
}

// nudge wakes the worker if it waits, or keeps it from waiting once, for the cost of a round.
func (w *worker) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// halt ends the worker, if there is one. Then the caller owns the worker's fields.
func (w *worker) halt() {
	if w.presence.Swap(halted) == absent {
		return
	}
	w.nudge()
	<-w.done
}

func (w *worker) takeWheel() *wheel {
	w.mu.Lock()
	defer w.mu.Unlock()
	wheel := w.wheel
	w.wheel = nil
	w.shown.show(nil)
	return wheel
}
