package main

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// rpcWindow is how many requests of a goroutine are in flight. When a request leaves the window it is canceled,
// except one in a hundred, which is left to fire.
const rpcWindow = 256

// requests counts how the timeouts of requests end.
type requests struct {
	kept, left   atomic.Int64 // left to fire: in total, and not yet fired
	late, spared atomic.Int64 // canceled but fired; Cancel returned false
}

// keeps reports whether request i is left to fire, and counts it if it is.
func (r *requests) keeps(i int) bool {
	if i%100 != 0 {
		return false
	}
	r.left.Add(1)
	r.kept.Add(1)
	return true
}

func rpcDelay(rng *rand.Rand) time.Duration {
	return 100*ms + time.Duration(rng.Int64N(int64(400*ms)))
}

// rpc measures requests. It calls start once for each goroutine. Of the functions that start returns, request
// makes request number i, and drop cancels the request in slot i%rpcWindow.
func (b *bench) rpc(r *requests, start func(rng *rand.Rand) (request, drop func(i int))) {
	b.doing("measure")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu := used().cpu
	drops := make([]func(i int), b.goroutines())
	n, took := loop(b.goroutines(), pick(b, time.Second, 100*ms), func(g int) func() {
		request, drop := start(rand.New(rand.NewPCG(uint64(g), 1)))
		drops[g] = drop
		i := 0
		return func() {
			request(i)
			i++
		}
	})
	b.set("wall", float64(took)/float64(n))
	b.set("rate", float64(n)/float64(took)*1e3)
	for _, drop := range drops {
		for i := range rpcWindow {
			drop(i)
		}
	}
	b.doing("wait for the timeouts that are left to fire")
	for end := time.Now().Add(pick(b, 5*time.Second, time.Second)); r.left.Load() > 0 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	b.settle()
	b.set("cpu", float64(used().cpu-cpu)/float64(n))
	runtime.ReadMemStats(&after)
	b.set("allocated", float64(after.TotalAlloc-before.TotalAlloc)/float64(n))
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

func runRPC(b *bench) {
	type slot struct {
		h    handle
		keep bool
	}
	r := new(requests)
	leave := func() { r.left.Add(-1) }
	cancel := func() { r.late.Add(1) }
	b.rpc(r, func(rng *rand.Rand) (request, drop func(i int)) {
		ring := make([]slot, rpcWindow)
		drop = func(i int) {
			s := ring[i%rpcWindow]
			if s.h != nil && !s.keep && !b.timer.Cancel(s.h) {
				r.spared.Add(1)
			}
		}
		return func(i int) {
			drop(i)
			s := &ring[i%rpcWindow]
			s.keep = r.keeps(i)
			f := cancel
			if s.keep {
				f = leave
			}
			s.h = b.timer.After(rpcDelay(rng), f)
		}, drop
	})
}

// runRPCPooled is runRPC with calls that come from a pool. A canceled call goes back to it at once, and a
// call that is left to fire goes back when it has fired. Deadlines are computed from a clock that is read
// once in 256 calls.
func runRPCPooled(b *bench) {
	type call struct {
		timeout handle // nil if each arming makes a new one
		keep    bool
		expire  func()
	}
	type slot struct {
		call *call // nil if it is left to fire, because it may be in the pool again
		h    handle
	}
	r := new(requests)
	var calls sync.Pool
	calls.New = func() any {
		c := new(call)
		c.expire = func() {
			if !c.keep {
				r.late.Add(1)
				return
			}
			calls.Put(c)
			r.left.Add(-1)
		}
		c.timeout = b.keep(c.expire)
		return c
	}
	arm := b.rearmer()
	b.rpc(r, func(rng *rand.Rand) (request, drop func(i int)) {
		ring := make([]slot, rpcWindow)
		drop = func(i int) {
			switch s := ring[i%rpcWindow]; {
			case s.call == nil:
			case b.timer.Cancel(s.h):
				calls.Put(s.call)
			default:
				r.spared.Add(1) // the call is not used again, because its task may still run
			}
		}
		var now time.Time
		return func(i int) {
			drop(i)
			if i%rpcWindow == 0 {
				now = time.Now()
			}
			c := calls.Get().(*call)
			c.keep = r.keeps(i)
			s, d := &ring[i%rpcWindow], rpcDelay(rng)
			if s.call = c; c.keep {
				s.call = nil
			}
			s.h = arm.arm(c.timeout, d, now.Add(d), c.expire)
		}, drop
	})
}
