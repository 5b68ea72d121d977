package work

import (
	"math"
	"time"

	"github.com/hashedwheel/hashedwheel/benchmarks/peers"
)

// paced calls step once in each period, and returns how far it fell behind at most. After a late step, the
// next ones follow without a wait until paced is on time again.
func paced(steps int, period time.Duration, step func(i int)) (behind time.Duration) {
	start := time.Now()
	for i := range steps {
		if wait := time.Duration(i)*period - time.Since(start); wait > 0 {
			time.Sleep(wait)
		} else {
			behind = max(behind, -wait)
		}
		step(i)
	}
	return max(behind, time.Since(start)-time.Duration(steps)*period)
}

// keptPace reports whether the peer was fast enough for the pace, and records a fault if it was not. It allows a
// delay of up to most, because the machine may have other work.
func (b *bench) keptPace(behind, most time.Duration) bool {
	if behind > most {
		b.failf("fell %.2g s behind", behind.Seconds())
	}
	return behind <= most
}

// runHeartbeat resets each timeout four times before it would be due, so that none fires. It begins to measure
// after it has armed and reset timeouts for longer than the delay, because then a wheel meets as many old
// deadlines as it ever will. At the end all timeouts have to fire.
func runHeartbeat(b *bench) {
	delay := pick(b, time.Second, 400*ms)
	const period = 2 * ms
	turn := int(delay / 4 / period) // the steps in which each timeout is reset once
	n := b.size()
	shots, tasks := newShots(n)
	handles := make([]peers.Handle, n)
	at, _ := b.timer.(peers.Deadliner)
	resets, step := 0, 0
	beat := func(int) {
		now := time.Now() // once a step, as in a server that handles several packets at a time
		due := int64(now.Sub(epoch) + delay)
		deadline := now.Add(delay)
		from, to := n*(step%turn)/turn, n*(step%turn+1)/turn
		for i := from; i < to; i++ {
			shots[i].due.Store(due)
			switch {
			case step < turn:
				handles[i] = b.timer.After(delay, tasks[i])
			case at != nil:
				at.ResetAt(handles[i], deadline)
			default:
				handles[i] = b.timer.Reset(handles[i], delay, tasks[i])
			}
		}
		resets += to - from
		step++
	}
	b.doing("arm, and reset until all old deadlines are over")
	behind := paced(turn+int(delay/period), period, beat)
	b.doing("reset")
	resets = 0
	m := b.meter()
	behind = max(behind, paced(pick(b, 1500, 200), period, beat))
	m.stop(resets)
	early := 0
	for i := range shots {
		if shots[i].fired.Load() > 0 {
			early++
		}
	}
	if !b.keptPace(behind, delay/2) {
		return // some timeouts may rightly have been due
	}
	if early > 0 {
		b.failf("%d of %d fired though they were reset in time", early, n)
	}
	b.finish(shots, pick(b, 3*time.Second, 500*ms))
}

// runBurst arms 1,000 timeouts for one moment, about a second ahead, in each tick. The place of that moment in the
// tick changes, because otherwise the lateness of a wheel would depend on chance.
func runBurst(b *bench) {
	const size = 1000
	lead := pick(b, time.Second, 300*ms)
	steps := b.size() / size
	shots, tasks := newShots(steps * size)
	b.doing("arm")
	m := b.meter()
	start := time.Since(epoch)
	behind := paced(steps, b.work.tick, func(i int) {
		_, place := math.Modf(float64(i) * math.Phi) // spread evenly
		due := start + lead + time.Duration((float64(i)+place)*float64(b.work.tick))
		d := due - time.Since(epoch)
		for j := i * size; j < (i+1)*size; j++ {
			shots[j].due.Store(int64(due))
			b.timer.After(d, tasks[j])
		}
	})
	b.keptPace(behind, lead/2)
	b.finish(shots, pick(b, 5*time.Second, 500*ms))
	m.stop(len(shots))
}
