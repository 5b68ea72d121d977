package hashedwheel

// Presence
//
// The worker is the one goroutine that turns the wheel. It exists only while something is on the queue or
// the wheel, and sleeps while nothing comes due. One atomic word, its presence, holds its state:
//
//		absent --- summon: starts it ---> awake --- Stop ---> halted
//		   ^                              ^  |
//		   |      the wheel is empty      |  |
//		   +------------------------------|--+
//		                                  |  |  nothing due at the next boundary
//		          summon: wakes it        |  v
//		                                asleep
//
//	  - awake: the worker takes the queue at the next boundary, or checks it after it has
//	    left this state. A push need not do anything.
//	  - asleep, absent: a push that finds its stack empty changes the state to awake. So does
//	    a producer that has pruned the queue and put back what it keeps. The goroutine that
//	    made the change wakes or starts the worker.
//	    When its alarm goes off, the sleeping worker changes the state to awake itself.
//	  - halted: Stop, which changes every state to halted, owns everything that the worker owned.
//
// No wake-up is lost. A producer pushes before it reads the presence. The worker changes the presence
// before it checks the queue. All of this is sequentially consistent. So either the producer finds the
// worker idle, or the worker finds the timeout. A push on a stack that is not empty relies on the push
// that found it empty.
const (
	absent = iota
	awake
	asleep
	halted
)

// attending is the lowest bit of Timer.position, where the worker publishes its position. The other bits
// are the tick whose buckets the worker is about to visit or has visited: this tick and all earlier ones
// have gone by. The bit is set while the worker is awake and comes at the next boundary. Then all later
// ticks lie ahead, or have only just gone by.
const attending = 1

// setPosition publishes the worker's position. Called by the worker.
func (w *worker) setPosition(tick uint64, flag uint64) {
	position := tick<<1 | flag
	if p := &w.timer.position; p.Load() != position {
		p.Store(position)
	}
}

// summon makes sure that the worker takes the queue at the next boundary. Called after a push, by any
// goroutine.
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

// nudge wakes the worker if it waits, or keeps it from waiting once. An unnecessary nudge costs one round
// of the worker.
func (w *worker) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// halt ends the worker, if there is one, and returns when the caller owns the worker's fields.
func (w *worker) halt() {
	if w.presence.Swap(halted) == absent {
		return
	}
	w.nudge()
	<-w.done
}

// goIdle changes the presence to asleep or absent, unless there is something to do after all. It returns
// the tick to wait for, which is next if the worker stays awake. Gone reports that the worker has ended
// and owns nothing any more.
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
	// Another goroutine has changed the presence meanwhile: it has started another worker, or it has
	// woken or halted this one, and a nudge is on its way.
	return wheel.next, state == absent
}
