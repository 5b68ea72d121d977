package keyed

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// An Option changes a default of New.
type Option func(*config)

// config holds what the options set. The zero config has the defaults.
type config struct {
	concurrency int
	jitter      float64
}

// WithConcurrency limits the number of calls of expired that run at the same time to n, for this Map alone. Zero, the
// default, means no limit.
//
// A key whose call has to wait has expired: it is no longer in the Map, and does not count as pending. The call waits
// in a queue of the Map, without a goroutine, and delays no other task of the timer. Calls start in the order in which
// the keys came to the queue. Stats.KeysWaiting counts these keys. A call that panics, or that ends its goroutine, lets
// the next one start.
//
// Up to n tasks of the timer go on calling expired as long as keys wait. So if the timer has WithMaxConcurrency or an
// executor, choose a smaller n. A call must not wait for another call of the same Map. If n calls do, they wait
// forever.
//
// After Stop the calls that wait still come, and Shutdown waits for them.
func WithConcurrency(n int) Option {
	return func(c *config) { c.concurrency = n }
}

// WithJitter makes lives longer at random, so that keys that are set at the same time do not expire at the same time. Each Set,
// GetOrSet, Touch and TouchIf adds to its delay between zero and the given fraction of it, evenly distributed. So a key never
// expires before its delay. The deadline of a SetAt or TouchAt stays exact. The fraction is 0, the default, to 1. Deadline
// returns the deadline with the jitter.
func WithJitter(fraction float64) Option {
	return func(c *config) { c.jitter = fraction }
}

// newConfig panics if an option is wrong.
func newConfig(opts []Option) (c config) {
	for _, o := range opts {
		if o != nil {
			o(&c)
		}
	}
	switch {
	case c.concurrency < 0:
		panic(fmt.Sprintf("keyed: WithConcurrency(%d): the limit must be positive, or 0 for none", c.concurrency))
	case !(c.jitter >= 0 && c.jitter <= 1): // or NaN
		panic(fmt.Sprintf("keyed: WithJitter(%v): the fraction must be 0 to 1", c.jitter))
	}
	return c
}

// life returns a life that lasts a delay with its jitter.
func (m *Map[K, V]) life(delay time.Duration) term { return term{delay: m.longer(delay)} }

// longer returns a delay with its jitter.
func (m *Map[K, V]) longer(delay time.Duration) time.Duration {
	if m.jitter == 0 || delay <= 0 {
		return delay
	}
	// This is less than the longest Duration, because Float64 is less than 1.
	more := time.Duration(m.jitter * rand.Float64() * float64(delay))
	if delay > math.MaxInt64-more {
		return math.MaxInt64
	}
	return delay + more
}
