package work

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
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

// runIdle counts the wake-ups of all threads of the process. They include the runtime's own and one a second of
// watch.
func runIdle(b *bench) {
	handles := b.pending(b.size())
	b.doing("idle")
	b.resting.Store(true)
	time.Sleep(pick(b, time.Second, 100*ms))
	d := pick(b, 2*time.Second, 300*ms)
	before := used()
	time.Sleep(d)
	after := used()
	b.set("busy", 100*(after.cpu-before.cpu).Seconds()/d.Seconds())
	b.set("wakeups", float64(after.wakeups-before.wakeups)/d.Seconds())
	runtime.KeepAlive(handles)
}

func runLate(b *bench) {
	shots := make([]*shot, b.size())
	spread := pick(b, time.Second, 300*ms)
	b.doing("arm")
	for i := range shots {
		shots[i] = new(shot)
		shots[i].arm(b.timer, 20*ms+rand.N(spread))
	}
	b.doing("wait")
	await(shots, pick(b, 5*time.Second, 500*ms))
	b.setLateness(b.judge(shots))
}

// runBlocked first arms the timeout whose task blocks, so that this timeout comes before others of the same tick.
func runBlocked(b *bench) {
	blocks := pick(b, 2*time.Second, 500*ms)
	shots := make([]*shot, b.size())
	b.doing("arm")
	release := make(chan struct{})
	b.timer.After(100*ms, func() { <-release })
	time.AfterFunc(100*ms+blocks, func() { close(release) })
	for i := range shots {
		shots[i] = new(shot)
		shots[i].arm(b.timer, 100*ms+rand.N(blocks/2))
	}
	b.doing("wait")
	await(shots, 2*blocks)
	b.setLateness(b.judge(shots))
}

// probe arms one timeout of 100 ms after another for the time d, and records how late they are. When d is over it
// calls finish, even while it waits for the last timeout.
func (b *bench) probe(d time.Duration, finish func()) {
	finish = sync.OnceFunc(finish)
	var late []time.Duration
	start := time.Now()
	for time.Since(start) < d {
		s, fired := new(shot), make(chan struct{})
		s.due.Store(int64(time.Since(epoch) + 100*ms))
		b.timer.After(100*ms, func() {
			s.fire()
			close(fired)
		})
		b.doing("wait for the timeout of 100 ms, armed after %.1f s", time.Since(start).Seconds())
	wait:
		for {
			select {
			case <-fired:
				break wait
			case <-time.After(20 * ms):
				if time.Since(start) >= d {
					finish()
				}
				// Record the lateness so far, because a limit may end the run.
				b.raise("max", float64(int64(time.Since(epoch))-s.due.Load())/1e6)
			}
		}
		l := time.Duration(s.late.Load())
		late = append(late, l)
		b.raise("max", float64(l)/1e6)
	}
	finish()
	slices.Sort(late)
	b.setLateness(late)
	if late[0] < 0 {
		b.failf("early by up to %.2g ms", -float64(late[0])/1e6)
	}
}
