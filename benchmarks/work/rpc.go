package work

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashedwheel/hashedwheel/benchmarks/peers"
)

// rpcWindow is how many requests of a goroutine are in flight. When a request leaves the window it is canceled, except
// one in a hundred, which is left to fire.
const rpcWindow = 256

// A call is a request in flight.
type call struct {
	timeout peers.Handle // nil if each arming makes a new one
	keep    bool         // left to fire
	expire  func()
}

// runRPC needs no calls of its own for requests. So all share one.
func runRPC(b *bench) {
	var fired atomic.Int64
	c := &call{expire: func() { fired.Add(1) }}
	b.rpc(&fired, func(bool) *call { return c }, func(*call) {})
}

// runRPCPooled has calls that come from a pool. A canceled call goes back to it at once, and a call that is left to fire
// goes back when it has fired.
func runRPCPooled(b *bench) {
	var fired atomic.Int64
	var calls sync.Pool
	calls.New = func() any {
		c := new(call)
		c.expire = func() {
			if c.keep {
				calls.Put(c)
			}
			fired.Add(1)
		}
		c.timeout = b.keep(c.expire)
		return c
	}
	b.rpc(&fired, func(keep bool) *call {
		c := calls.Get().(*call)
		c.keep = keep
		return c
	}, func(c *call) { calls.Put(c) })
}

// rpc measures requests. Each gets a call, and a canceled one puts it back. Each request must fire that is left to fire
// or whose Cancel has returned false, and no other one. Deadlines are computed from a clock that is read once in 256
// calls.
func (b *bench) rpc(fired *atomic.Int64, get func(keep bool) *call, put func(*call)) {
	type slot struct {
		call *call // nil if it is left to fire, because it may be in the pool again
		h    peers.Handle
	}
	var left, spared atomic.Int64
	arm := b.armer()
	drop := func(s *slot) {
		switch {
		case s.call == nil:
		case b.timer.Cancel(s.h):
			put(s.call)
		default:
			spared.Add(1) // the call is not used again, because its task may still run
		}
	}
	b.doing("measure")
	rings := make([][]slot, b.goroutines())
	m := b.meter()
	n, took := loop(b.goroutines(), pick(b, time.Second, 100*ms), func(g int) func() {
		rng, i := rand.New(rand.NewPCG(uint64(g), 1)), 0
		ring := make([]slot, rpcWindow)
		rings[g] = ring
		var now time.Time
		return func() {
			s := &ring[i%rpcWindow]
			drop(s)
			if i%rpcWindow == 0 {
				now = time.Now()
			}
			keep := i%100 == 0
			c := get(keep)
			if s.call = c; keep {
				left.Add(1)
				s.call = nil
			}
			d := 100*ms + time.Duration(rng.Int64N(int64(400*ms)))
			s.h = arm(c.timeout, d, now.Add(d), c.expire)
			i++
		}
	})
	b.set("wall", float64(took)/float64(n))
	for _, ring := range rings {
		for i := range ring {
			drop(&ring[i])
		}
	}
	b.doing("wait for the timeouts that are left to fire")
	must := left.Load() + spared.Load()
	waitFor(pick(b, 5*time.Second, time.Second), func() bool { return fired.Load() >= must })
	b.settle()
	m.stop(n)
	b.set("left", float64(left.Load()))
	switch more := fired.Load() - must; {
	case more < 0:
		b.failf("lost %d of %d that must fire", -more, must)
	case more > 0:
		b.failf("%d fired though canceled", more)
	}
}
