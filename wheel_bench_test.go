package hashedwheel

import (
	"fmt"
	"testing"
)

// What the wheel itself costs for one timeout, from its placing until it is due, with a million
// pending: the table of the README that says when to use levels. Delays are in ticks; all have the
// same one, and at each tick as many are placed as have been due.
func BenchmarkWheel(b *testing.B) {
	const pending = 1_000_000
	for _, delay := range []uint64{250, 2_500, 25_000, 250_000} {
		for _, levels := range []int{1, 2, 3} {
			b.Run(fmt.Sprintf("size=512/delay=%d/levels=%d", delay, levels), func(b *testing.B) {
				w := newWheel(512, levels, 0)
				for i := range uint64(pending) {
					tick := 1 + i*delay/pending
					w.place(testTimeout(tick), tick)
				}
				fired := 0
				again := func(to *Timeout) {
					fired++
					tick := w.now + delay
					to.word.Store(pendingAt(0, tick))
					w.place(to, tick)
				}
				turn := func() {
					w.advance(w.now+1, again)
					for w.cascade(again) {
					}
				}
				for range delay { // until the levels are filled as they stay
					turn()
				}
				fired = 0
				for b.Loop() {
					turn()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(fired), "ns/timeout")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
