package hashedwheel

// Presence
//
// The worker is the one goroutine that turns the wheel. It is there only while something is
// pending, and asleep while nothing is due. Where it is, is one atomic word:
//
//		absent --- summon: starts it ---> awake --- Stop ---> halted
//		   ^                              ^  |
//		   |        nothing pending       |  |
//		   +------------------------------|--+
//		                                  |  |  nothing due at the next boundary
//		          summon: wakes it        |  v
//		                                asleep
//
//	  - awake: the worker takes the queue at the next boundary, or looks at it after it has
//	    left this state. A push needs to do nothing.
//	  - asleep, absent: the push that found its stack empty changes the state to awake, and so
//	    does a producer that has pruned the queue and put back what it keeps. The one that
//	    made the change wakes or starts the worker.
//	  - halted: Stop owns what was the worker's.
//
// No wake-up is lost. The push comes before the look at the presence, and on the worker's
// side the change of presence before the look at the queue. All are sequentially consistent,
// so either the push finds the worker gone to rest, or the worker finds the timeout. A push
// that finds its stack occupied leaves this to the one that filled it.
const (
	absent = iota
	awake
	asleep
	halted
)

// The worker also publishes its position, in Timer.position: twice the tick whose buckets it is about to
// visit, or has visited, plus attending if it is awake and will come at the next boundary. Ticks that
// are not later have gone by. Later ones lie ahead, or have just gone by, if it is attending.
const attending = 1

// setPosition publishes the position. Called by the worker.
func (w *worker) setPosition(tick uint64, flag uint64) {
	position := tick<<1 | flag
	if p := &w.timer.position; p.Load() != position {
		p.Store(position)
	}
}

// summon sees to it that the worker looks at the queue at the next boundary. Called after
// the push, by any goroutine.
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
			if w.presence.CompareAndSwap(absent, awake) { // the worker's fields are the new one's
				go w.run()
				return
			}
		}
	}
}

// nudge wakes the worker wherever it waits. A nudge too many costs a look at the queue.
func (w *worker) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// halt ends the worker, if there is one, and returns when the caller owns what was its.
func (w *worker) halt() {
	if w.presence.Swap(halted) == absent {
		return
	}
	w.nudge()
	<-w.done
}

// goIdle changes the presence to asleep or absent. It returns the tick to wait for, which is next if
// there is something to be done after all; or that the worker has gone and owns nothing any more.
func (w *worker) goIdle(next uint64) (until uint64, gone bool) {
	wheel, state := w.wheel, uint32(asleep)
	w.setPosition(wheel.now, 0)
	if wheel.count == 0 {
		state = absent
		w.wheel = nil
		w.shown.show(nil)
	}
	if !w.presence.CompareAndSwap(awake, state) { // if absent, the fields are no longer ours
		return next, false // halted
	}
	if w.queue.empty() {
		return wheel.next, state == absent
	}
	if w.presence.CompareAndSwap(state, awake) {
		w.setPosition(wheel.now, attending)
		return next, false // and if absent, the fields are ours again
	}
	// Somebody summoned a worker: another one, or this one, for which a nudge is on its way.
	return wheel.next, state == absent
}
