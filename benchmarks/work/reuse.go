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

// armer returns a function that arms what keep has returned, or a new timeout if the peer does not keep any. It expires
// after d or at the deadline, which are about the same. It returns the handle for Cancel.
func (b *bench) armer() func(h peers.Handle, d time.Duration, deadline time.Time, f func()) peers.Handle {
	at, hasDeadlines := b.timer.(peers.Deadliner)
	_, keeps := b.timer.(peers.Keeper)
	return func(h peers.Handle, d time.Duration, deadline time.Time, f func()) peers.Handle {
		switch {
		case hasDeadlines:
			at.ResetAt(h, deadline)
			return h
		case keeps:
			return b.timer.Reset(h, d, f)
		default:
			return b.timer.After(d, f)
		}
	}
}

// deadlines returns a function whose results are always about d ahead. It reads the clock once in 1,024 calls, because a
// server that computes a deadline has usually read the clock for another reason.
func deadlines(d time.Duration) func() time.Time {
	n, deadline := 0, time.Time{}
	return func() time.Time {
		if n%1024 == 0 {
			deadline = time.Now().Add(d)
		}
		n++
		return deadline
	}
}

// runReuse arms and cancels the timeouts of a ring. Each goroutine has its own ring.
func runReuse(b *bench) {
	arm := b.armer()
	rings := make([][]peers.Handle, b.goroutines())
	for g := range rings {
		rings[g] = make([]peers.Handle, b.size())
		for i := range rings[g] {
			rings[g][i] = b.keep(nop)
		}
	}
	b.ops(func(g int) func() {
		ring, i, deadline := rings[g], 0, deadlines(10*time.Second)
		return func() {
			ring[i] = arm(ring[i], 10*time.Second, deadline(), nop)
			b.timer.Cancel(ring[i])
			i = (i + 1) % len(ring)
		}
	})
}
