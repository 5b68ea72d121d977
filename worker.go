package hashedwheel

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// worthPlacing is the number of timeouts pending on the queue for which the worker is called before
	// the tick is over, so that it does not find too many of them then. It is shared out to the stripes.
	worthPlacing = 1 << 18

	// lookEvery is the number of timeouts taken off the queue after which the worker looks
	// at the clock, so that a long queue does not keep it from a tick that comes due: some
	// 50 microseconds.
	lookEvery = 1 << 10

	// maxAwake is how long the worker waits at most in the state awake, in which nobody calls
	// it. Otherwise it would stay for a long tick although nothing is pending any more.
	maxAwake = 500 * time.Millisecond

	// tooLate is how late the worker must have been for a warning.
	tooLate = time.Second

	// sweepShare is how many times longer than a sweep took the next one has to wait. It takes as long
	// as tasks have been waiting for their turn, which is none at all in a timer without limits.
	sweepShare = 8
)

// A worker turns the wheel of one timer.
type worker struct {
	// Immutable after New.
	timer     *Timer // for its runners, and to log
	clock     *clock
	queue     *queue
	wheelSize int
	levels    int
	wake      chan struct{} // one token is enough: it says that there is something to see
	done      chan struct{} // closed by a worker that found itself halted

	// Shared.
	presence atomic.Uint32
	wakeups  atomic.Uint64 // times that it has waited; written by the worker
	taken    atomic.Uint64 // timeouts that it, or Stop, has taken off the queue
	shown    levelsShown   // written by the worker, or Stop

	// Owned by the worker while there is one. It passes from one to the next, and to Stop,
	// with the presence. With mu held, others may read the wheel.
	mu    sync.Mutex // held by the worker, except while it waits
	wheel *wheel     // nil while there is none

	stale    bool          // a timeout that is in a batch may have been canceled or reset
	sweepAt  time.Duration // not to sweep the batches before
	lookedAt time.Duration // when it last looked after the runners

	late   time.Duration // how late the worker has been since it looked, see warnIfLate
	warnAt time.Duration // not to warn of that before
}

// run is the worker. Its name is promised in the package's documentation, for goleak.
func (w *worker) run() {
	setLabels(w.timer.labels.worker)
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

// round does what is to be done now, and returns until when to wait then, 0 if there is more to be
// done; or that the worker has gone and owns nothing any more.
func (w *worker) round() (until time.Duration, gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wheel == nil {
		w.wheel = newWheel(w.wheelSize, w.levels, w.clock.now())
	}
	w.turn()
	taken := w.drain()
	more := w.wheel.cascade(w.emit)
	w.handOver()
	w.shown.show(w.wheel)
	elapsed := w.clock.elapsed()
	w.warnIfLate(elapsed)
	waiting, overdue := w.checkStalled(elapsed)
	if more {
		return 0, false // with whatever has come due meanwhile
	}
	if taken == 0 {
		w.wheel.refresh()
	}
	next := w.wheel.now + 1
	until = w.clock.boundary(next)
	switch {
	case overdue:
		until = min(until, later(elapsed, max(w.clock.tick/looksPerTick, 1)))
	case taken == 0 && !waiting && !w.stale && (w.wheel.next > next || w.clock.tick > maxAwake):
		// A tick without news and nothing due: time to go idle. After a tick with
		// news there is likely to be more, and to be called costs more than to look.
		next, gone = w.goIdle(next)
		until = w.clock.boundary(next)
		if w.presence.Load() == awake { // after all: then nobody calls it
			until = min(until, later(elapsed, maxAwake))
		}
	default:
		until = min(until, later(elapsed, maxAwake))
	}
	return until, gone
}

// later returns when d will have passed, or the end of the clock.
func later(elapsed, d time.Duration) time.Duration {
	if d > math.MaxInt64-elapsed {
		return math.MaxInt64
	}
	return elapsed + d
}

// wait returns when so much time has elapsed since New, or when nudged. It may return early. The
// longest Duration is for ever, not what is left of it: the clock ends there.
func (w *worker) wait(alarm *time.Timer, until time.Duration) {
	if until < math.MaxInt64 {
		until -= w.clock.elapsed()
	}
	alarm.Reset(until)
	select {
	case <-alarm.C:
	case <-w.wake:
	}
	w.wakeups.Add(1)
	w.presence.CompareAndSwap(asleep, awake)
}

// turn advances the wheel to the current tick and hands over what has come due.
func (w *worker) turn() {
	elapsed := w.clock.elapsed()
	now := w.clock.tickAt(elapsed)
	if due := w.wheel.next; due <= now {
		w.late = max(w.late, elapsed-w.clock.boundary(due))
	}
	w.setPosition(now, attending)
	w.wheel.advance(now, w.emit)
	w.handOver()
}

// warnIfLate warns if something has been handed over very late: the machine has stood still, or is far
// too busy.
func (w *worker) warnIfLate(elapsed time.Duration) {
	if w.late > tooLate && elapsed >= w.warnAt {
		w.warnAt = elapsed + tooLate
		late, t := w.late, w.timer
		t.calls.add(func() {
			defer func() { _ = recover() }() // a log that panics cannot be told of it
			t.log().Warn("hashedwheel: timeouts fired late; machine overloaded or suspended", "late", rounded(late))
		})
	}
	w.late = 0
}

// takeWheel returns the wheel, nil if there is none. Called by Stop, which keeps it.
func (w *worker) takeWheel() *wheel {
	w.mu.Lock()
	defer w.mu.Unlock()
	wheel := w.wheel
	w.wheel = nil
	w.shown.show(nil)
	return wheel
}

// drain takes the whole queue, settles each timeout, hands over those that are due already,
// and returns their number. Ticks that come due meanwhile are not kept waiting.
func (w *worker) drain() (taken int) {
	for i := range w.queue.stripes {
		for list := range w.queue.stripes[i].takeAll((*stack).take) {
			for list != nil {
				var to *Timeout
				to, list = unlink(list)
				w.settle(to)
				if taken++; taken%lookEvery == 0 {
					w.taken.Add(lookEvery)
					w.turn()
					w.shown.show(w.wheel)
				}
			}
		}
	}
	w.taken.Add(uint64(taken % lookEvery))
	w.handOver()
	if w.stale && w.clock.elapsed() >= w.sweepAt {
		start := w.clock.elapsed()
		w.stale = false
		for _, r := range w.timer.allRunners() {
			w.stale = r.sweep(w.wheel.now) || w.stale
		}
		end := w.clock.elapsed()
		w.sweepAt = end + sweepShare*(end-start)
	}
	return taken
}

// settle brings the place of a timeout that comes off the queue in line with its word.
func (w *worker) settle(to *Timeout) {
	word := to.takeOff(queued | fresh) // from here on others may push it again
	placed := to.bucket != 0
	switch tick := tickOf(word); {
	case status(word) != pending:
		if placed {
			w.wheel.remove(to)
		}
		w.stale = true // it may be in a batch
	case word&atWork != 0:
		if placed {
			w.wheel.remove(to)
		}
	case tick <= w.wheel.now:
		if placed {
			w.wheel.remove(to)
		}
		if word&moved == 0 { // else it may have been in a batch, with others before it, until now
			w.late = max(w.late, w.clock.boundary(w.wheel.now)-w.clock.boundary(tick))
		}
		w.emit(to)
	case placed:
		w.wheel.move(to, tick)
	default:
		w.wheel.place(to, tick)
		w.stale = w.stale || word&moved != 0 // as above
	}
}

// emit adds a timeout that is due to the batch of its runners.
func (w *worker) emit(to *Timeout) { w.timer.runnersOf(to).collect(to, w.wheel.now) }

// handOver gives the batches, if there are any, to the runners.
func (w *worker) handOver() {
	for _, r := range w.timer.allRunners() {
		r.handOver(w.wheel.now)
	}
}

// checkStalled looks after the runners: see there.
func (w *worker) checkStalled(elapsed time.Duration) (waiting, overdue bool) {
	spent := elapsed - w.lookedAt
	w.lookedAt = elapsed
	for _, r := range w.timer.allRunners() {
		someWait, someOverdue := r.checkStalled(w.wheel.now, spent)
		waiting, overdue = waiting || someWait, overdue || someOverdue
	}
	return waiting, overdue
}
