package pool

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// A counter is a host whose tasks do nothing. It counts them.
type counter struct {
	numbers
	left *atomic.Int64
	done chan struct{}
}

func (h counter) Work(rn *Runner[int]) {
	work(rn, func(int) {
		if h.left.Add(-1) == 0 {
			close(h.done)
		}
	})
}

// BenchmarkPool measures what it costs to add a task, and to run one that does nothing.
func BenchmarkPool(b *testing.B) {
	for _, how := range []string{"feeder", "add"} {
		for _, runners := range []int{1, 2} {
			b.Run(fmt.Sprintf("how=%s/runners=%d", how, runners), func(b *testing.B) {
				h := counter{left: new(atomic.Int64), done: make(chan struct{})}
				h.left.Store(int64(b.N))
				var p Pool[int]
				p.Init(h, time.Second, new(Memory[int]))
				p.Limit = runners
				b.ReportAllocs()
				b.ResetTimer()
				if f := NewFeeder(&p); how == "feeder" {
					for range b.N {
						f.Add(1)
					}
					f.Flush()
				} else {
					for range b.N {
						p.Add(1)
					}
				}
				<-h.done
				<-p.UntilIdle()
			})
		}
	}
}
