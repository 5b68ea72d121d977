package hashedwheel

import (
	"fmt"
	"testing"
)

// The benchmark measures the cost of the wheel alone for one timeout, from the moment when it is placed until it is
// due, with a million pending. benchmarks/README.md has the results, in the table about levels. All timeouts have
// the same delay, in ticks, and each is placed again when it is due.
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
				for range delay { // until the levels have reached a steady state
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
