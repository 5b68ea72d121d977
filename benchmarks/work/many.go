package work

import (
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/aclements/go-moremath/stats"
)

func runPending(b *bench) {
	n := b.size()
	empty := heapBytes() + 16*float64(n) // the handles belong to the workload, not to the peer
	handles := b.pending(n)
	b.set("bytes", (heapBytes()-empty)/float64(n))
	var took []float64
	b.doing("collect")
	for range pick(b, 7, 3) {
		start := time.Now()
		runtime.GC()
		took = append(took, float64(time.Since(start))/1e6)
	}
	b.set("gc", stats.Sample{Xs: took}.Quantile(0.5))
	runtime.KeepAlive(handles)
}

func runLate(b *bench) {
	shots, _ := newShots(b.size())
	spread := pick(b, time.Second, 300*ms)
	b.doing("arm")
	for _, s := range shots {
		s.arm(b.timer, 20*ms+rand.N(spread))
	}
	b.finish(shots, pick(b, 5*time.Second, 500*ms))
}

// runBlocked first arms the timeout whose task blocks, so that this timeout comes before others of the same tick.
func runBlocked(b *bench) {
	blocks := pick(b, 2*time.Second, 500*ms)
	shots, _ := newShots(b.size())
	b.doing("arm")
	release := make(chan struct{})
	b.timer.After(100*ms, func() { <-release })
	time.AfterFunc(100*ms+blocks, func() { close(release) })
	for _, s := range shots {
		s.arm(b.timer, 100*ms+rand.N(blocks/2))
	}
	b.finish(shots, 2*blocks)
}

// probe arms one timeout of 100 ms after another for the time d, and returns them when the last has fired.
func (b *bench) probe(d time.Duration) (shots []*shot) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		s, fired := new(shot), make(chan struct{})
		s.due.Store(int64(time.Since(epoch) + 100*ms))
		b.timer.After(100*ms, func() {
			s.fire()
			close(fired)
		})
		<-fired
		shots = append(shots, s)
	}
	return shots
}
