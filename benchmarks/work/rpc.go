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

// requests counts how the timeouts of requests end.
type requests struct {
	kept, left   atomic.Int64 // left to fire: in total, and not yet fired
	late, spared atomic.Int64 // canceled but fired; Cancel returned false
}

// expire is the task of a request that is left to fire, or of one that is not.
func (r *requests) expire(keep bool) {
	if keep {
		r.left.Add(-1)
	} else {
		r.late.Add(1)
	}
}

// A call is a request in flight.
type call struct {
	timeout peers.Handle // nil if each arming makes a new one
	keep    bool
	expire  func()
}

// runRPC needs no calls of its own for requests. So all that are left to fire share one, and so do all others.
func runRPC(b *bench) {
	r := new(requests)
	left, others := &call{expire: func() { r.expire(true) }}, &call{expire: func() { r.expire(false) }}
	b.rpc(r, func(keep bool) *call {
		if keep {
			return left
		}
		return others
	}, func(*call) {})
}

// runRPCPooled has calls that come from a pool. A canceled call goes back to it at once, and a call that is left to fire
// goes back when it has fired.
func runRPCPooled(b *bench) {
	r := new(requests)
	var calls sync.Pool
	calls.New = func() any {
		c := new(call)
		c.expire = func() {
			keep := c.keep
			if keep {
				calls.Put(c)
			}
			r.expire(keep)
		}
		c.timeout = b.keep(c.expire)
		return c
	}
	b.rpc(r, func(keep bool) *call {
		c := calls.Get().(*call)
		c.keep = keep
		return c
	}, func(c *call) { calls.Put(c) })
}

// rpc measures requests. Each gets a call, and a canceled one puts it back. Deadlines are computed from a clock that is
// read once in 256 calls.
func (b *bench) rpc(r *requests, get func(keep bool) *call, put func(*call)) {
	type slot struct {
		call *call // nil if it is left to fire, because it may be in the pool again
		h    peers.Handle
	}
	arm := b.rearmer()
	drop := func(s *slot) {
		switch {
		case s.call == nil:
		case b.timer.Cancel(s.h):
			put(s.call)
		default:
			r.spared.Add(1) // the call is not used again, because its task may still run
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
				r.left.Add(1)
				r.kept.Add(1)
				s.call = nil
			}
			d := 100*ms + time.Duration(rng.Int64N(int64(400*ms)))
			s.h = arm.arm(c.timeout, d, now.Add(d), c.expire)
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
	for end := time.Now().Add(pick(b, 5*time.Second, time.Second)); r.left.Load() > 0 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	b.settle()
	m.stop(n)
	b.set("left", float64(r.kept.Load()))
	if l := r.left.Load(); l > 0 {
		b.failf("lost %d of %d left to fire", l, r.kept.Load())
	}
	if l := r.late.Load(); l > r.spared.Load() {
		b.failf("%d fired though canceled", l-r.spared.Load())
	} else if l < r.spared.Load() {
		b.failf("%d neither canceled nor fired", r.spared.Load()-l)
	}
}
