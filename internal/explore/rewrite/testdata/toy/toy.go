// Package toy is what the tests of package rewrite explore.
package toy

import (
	"sync/atomic"
	"time"

	"github.com/hashedwheel/hashedwheel/internal/explore/rewrite/testdata/part"
)

// A Toy has some fields whose operations are rewritten.
type Toy struct {
	sum    part.Sum
	counts [2]atomic.Uint32
	every  atomic.Uint64
	made   time.Time
	wake   chan int
}

func (t *Toy) add(n int) {
	t.sum.Add(n)
	t.sum.Calls.Add(1)
	t.counts[n%2].Add(1)
	counter := &t.every
	counter.Add(1)
	if counter.Add(1)%8 == 0 {
		t.made = time.Now().Add(time.Second)
	}
	if t.wake != nil {
		t.wake <- n
	}
	t.made.Add(time.Second)
}

// toggle sets a counter to one more than it was, but not in one step.
func (t *Toy) toggle() { t.counts[0].Store(t.counts[0].Load() + 1) }

const blockSize = 64 // smaller in scenes
