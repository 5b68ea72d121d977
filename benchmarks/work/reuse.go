package work

import (
	"time"

	"github.com/hashedwheel/hashedwheel/benchmarks/peers"
)

func nop() {}

// keep returns a timeout that can be armed again and again, or nil if the peer makes a new one each time.
func (b *bench) keep(f func()) peers.Handle {
	if k, ok := b.timer.(peers.Keeper); ok {
		return k.Keep(f)
	}
	return nil
}

// A rearmer arms timeouts that their owner keeps, or new ones if the peer is not a keeper.
type rearmer struct {
	peers.Timer
	at    peers.Deadliner // nil if the peer has no deadlines
	keeps bool
}

func (b *bench) rearmer() *rearmer {
	at, _ := b.timer.(peers.Deadliner)
	_, keeps := b.timer.(peers.Keeper)
	return &rearmer{b.timer, at, keeps}
}

// arm arms the timeout that keep has returned. The timeout expires after d or at the deadline, which are about the
// same: a deadliner uses the deadline and other peers use d. It returns the handle for Cancel.
func (r *rearmer) arm(h peers.Handle, d time.Duration, deadline time.Time, f func()) peers.Handle {
	switch {
	case r.at != nil:
		r.at.ResetAt(h, deadline)
		return h
	case r.keeps:
		return r.Reset(h, d, f)
	default:
		return r.After(d, f)
	}
}

// deadlines computes deadlines that are always about the same time ahead. It reads the clock once in 1,024 of
// them, because a server that computes a deadline has usually read the clock for another reason.
type deadlines struct {
	after    time.Duration
	deadline time.Time
	n        int
}

func deadlineAfter(d time.Duration) *deadlines { return &deadlines{after: d} }

func (l *deadlines) next() time.Time {
	if l.n%1024 == 0 {
		l.deadline = time.Now().Add(l.after)
	}
	l.n++
	return l.deadline
}

// runReuse arms and cancels the timeouts of a ring. Each goroutine has its own ring.
func runReuse(b *bench) {
	arm := b.rearmer()
	rings := make([][]peers.Handle, b.goroutines())
	for g := range rings {
		rings[g] = make([]peers.Handle, b.size())
		for i := range rings[g] {
			rings[g][i] = b.keep(nop)
		}
	}
	b.ops(func(g int) func() {
		ring, i, deadlines := rings[g], 0, deadlineAfter(10*time.Second)
		return func() {
			ring[i] = arm.arm(ring[i], 10*time.Second, deadlines.next(), nop)
			b.timer.Cancel(ring[i])
			i = (i + 1) % len(ring)
		}
	})
}
