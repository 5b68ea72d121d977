package main

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// A backoff computes how long to wait before each retry: up to base before the first, and up to twice the
// previous bound before each further one, but never longer than max. Jitter makes it random, so that calls
// that failed together do not retry together.
type backoff struct {
	base, max time.Duration // both positive
	jitter    jitter
	uint64n   func(n uint64) uint64 // returns a number below n; nil for rand.Uint64N
}

// delay returns how long to wait before a retry. The first retry is number 1. All values from floor to
// ceiling, both included, are equally likely.
func (b backoff) delay(retry int) time.Duration {
	uint64n := b.uint64n
	if uint64n == nil {
		uint64n = rand.Uint64N
	}
	low := b.floor(retry)
	// Unsigned, because the number of values may be one more than a Duration can hold.
	return low + time.Duration(uint64n(uint64(b.ceiling(retry)-low)+1))
}

// ceiling returns the longest delay before a retry. It does not overflow.
func (b backoff) ceiling(retry int) time.Duration {
	doublings := max(retry-1, 0)
	if b.base > b.max>>doublings {
		return b.max
	}
	return b.base << doublings
}

// floor returns the shortest delay before a retry.
func (b backoff) floor(retry int) time.Duration {
	if b.jitter == equalJitter {
		return b.ceiling(retry) / 2
	}
	return 0
}

// A jitter says how much of a delay is random.
type jitter int

const (
	fullJitter  jitter = iota // all of it, which spreads the load best
	equalJitter               // the upper half, so that no retry is immediate
)

var jitterNames = [...]string{fullJitter: "full", equalJitter: "equal"}

func (j jitter) String() string { return jitterNames[j] }

// MarshalText returns the name. With UnmarshalText it makes a jitter usable as a flag.
func (j jitter) MarshalText() ([]byte, error) { return []byte(j.String()), nil }

func (j *jitter) UnmarshalText(text []byte) error {
	for i, name := range jitterNames {
		if name == string(text) {
			*j = jitter(i)
			return nil
		}
	}
	return fmt.Errorf("allowed are full and equal")
}
