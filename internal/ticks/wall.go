package ticks

import "time"

// stepTime is a second less than a minute. A usual tick and a busy machine add less than that.
const stepTime = time.Minute - time.Second

// A Wall says what the wall clock shows, and when to read it. Immutable once it is used.
type Wall struct {
	clock *Clock
	Step  uint64               // the number of ticks from one step to the next; 0 in a bubble, where nothing sets the wall clock
	Ahead func() time.Duration // by how much a test has set the wall clock forward; nil for nothing
}

// NewWall returns a Wall for the timer of a clock.
func NewWall(clock *Clock) *Wall {
	w := &Wall{clock: clock}
	if clock.Monotonic {
		w.MakeSteps()
	}
	return w
}

// MakeSteps makes a step each minute. Called by NewWall, and by tests in a bubble.
func (w *Wall) MakeSteps() { w.Step = uint64(max(stepTime/w.clock.Tick, 1)) }

// At returns what the wall clock shows at a time that time.Now has returned. It has no monotonic reading.
func (w *Wall) At(now time.Time) time.Time {
	now = now.Round(0)
	if w.Ahead != nil {
		now = now.Add(w.Ahead())
	}
	return now
}

// Due is Clock.Due up to the next step. All that is due later is due at that step.
func (w *Wall) Due(elapsed, delay time.Duration) uint64 {
	tick := w.clock.Due(elapsed, delay)
	if w.Step > 0 {
		tick = min(tick, (w.clock.TickAt(elapsed)/w.Step+1)*w.Step)
	}
	return tick
}
