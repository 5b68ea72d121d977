package main

import (
	"sync"
	"time"
)

// A tally records what the callers have seen.
type tally struct {
	mu        sync.Mutex
	byAttempt []int          // number of first attempts, second attempts and so on
	attempts  int            // their sum
	failures  map[string]int // failed attempts by kind
	issued    int            // number of calls made
	ended     int            // number of ends; equal to issued when each call has ended once
	records   []record       // the index is the id of the call minus one
}

// A record is what the caller saw of a call.
type record struct {
	issued      bool
	ends        int // how often the call has ended
	outcome     outcome
	answer      uint64
	attempts    int
	firstFailed time.Time // zero if the first attempt was answered
	ended       time.Time
}

// observe records an attempt for a failback.
func (t *tally) observe(attempt int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.byAttempt) < attempt {
		t.byAttempt = append(t.byAttempt, 0)
	}
	t.byAttempt[attempt-1]++
	t.attempts++
	if err != nil {
		if t.failures == nil {
			t.failures = make(map[string]int)
		}
		t.failures[kindOf(err)]++
	}
}

// issue records a call that is about to be made.
func (t *tally) issue(id uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.issued++
	t.records[id-1].issued = true
}

// end records the end of a call.
func (t *tally) end(c *call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended++
	r := &t.records[c.id-1]
	*r = record{
		issued: r.issued, ends: r.ends + 1, outcome: c.outcome, answer: c.answer, attempts: c.tried,
		firstFailed: c.firstFailed, ended: time.Now(),
	}
}

func (t *tally) counts() (issued, ended, attempts int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.issued, t.ended, t.attempts
}
