package hashedwheel

import "sync/atomic"

// A progress says how far the worker has come: the tick up to which it has visited the buckets, or is visiting them. The
// tick is never ahead of the clock. While the worker rests or watches, the tick stays as it was. Written by the worker: in
// expireDue, before it visits buckets, and in planNext, before it rests or watches.
//
// So a tick up to this one has passed (Timer.isPast). A later one counts as ahead if the worker is turning the wheel
// (Timer.ahead). And a timeout in the bucket of a later one has yet to be visited (Timer.stays).
type progress struct {
	tickAndTurning atomic.Uint64 // the lowest bit is 1 from expireDue until the worker rests or watches, also between rounds
}

func (p *progress) set(tick uint64, turning bool) {
	v := tick << 1
	if turning {
		v |= 1
	}
	change(&p.tickAndTurning, v)
}

// tick returns the tick. It has passed.
func (p *progress) tick() uint64 { return p.tickAndTurning.Load() >> 1 }

// nextTick returns the tick after the one that tick returns. At its boundary, a worker that is turning the wheel looks at the
// queue next, unless a goroutine calls wakeNow before. If the worker rests or watches, that boundary may have passed without a
// round.
func (p *progress) nextTick() uint64 { return p.tick() + 1 }

// isBefore reports whether the worker is sure to come to a tick: it is turning the wheel, and has not reached the tick.
func (p *progress) isBefore(tick uint64) bool {
	v := p.tickAndTurning.Load()
	return v&1 != 0 && tick > v>>1
}
