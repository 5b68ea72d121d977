package main

import (
	"slices"
	"sync"
	"time"
)

// An event is a change of a key.
type event struct {
	n    int // counts the events of the key, from 0
	text string
}

// An audit watches a limiter from both sides. It is told of each event that the
// limiter gets, and the limiter calls it. From that alone it checks the limiter.
type audit struct {
	name    string
	allowed rule
	call    func(key string, e event)

	mu      sync.Mutex
	keys    map[string]*history
	asks    int64
	made    int64
	tooSoon int64
}

// A history is what has happened to a key.
type history struct {
	asked []time.Time // when each event came
	made  []int       // the events with which calls were made, ascending
	ended time.Time   // when the last call returned
}

// A rule says whether the call of event n is allowed now.
type rule func(h *history, n int, now time.Time) bool

// apart is the rule of a throttle: the interval has passed since the last call.
func apart(interval time.Duration) rule {
	return func(h *history, _ int, now time.Time) bool {
		return h.ended.IsZero() || now.Sub(h.ended) >= interval
	}
}

// quietOrWaited is the rule of a debounce: the event is at least quiet old,
// or a call has waited for the maximum.
func quietOrWaited(quiet, maxWait time.Duration) rule {
	return func(h *history, n int, now time.Time) bool {
		if now.Sub(h.asked[n]) >= quiet {
			return true
		}
		first := 0
		if i, _ := slices.BinarySearch(h.made, n); i > 0 {
			first = h.made[i-1] + 1
		}
		return maxWait > 0 && now.Sub(h.asked[first]) >= maxWait
	}
}

func newAudit(name string, allowed rule, call func(key string, e event)) *audit {
	return &audit{name: name, allowed: allowed, call: call, keys: make(map[string]*history)}
}

// asked records an event that is about to be given to the limiter.
func (a *audit) asked(key, text string) event {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := a.keys[key]
	if h == nil {
		h = new(history)
		a.keys[key] = h
	}
	a.asks++
	h.asked = append(h.asked, time.Now())
	return event{n: len(h.asked) - 1, text: text}
}

// called is the function that the limiter calls.
func (a *audit) called(key string, e event) {
	h := a.begin(key, e.n, time.Now())
	a.call(key, e)
	a.mu.Lock()
	h.ended = time.Now()
	a.mu.Unlock()
}

func (a *audit) begin(key string, n int, now time.Time) *history {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := a.keys[key]
	if !a.allowed(h, n, now) {
		a.tooSoon++
	}
	a.made++
	i, _ := slices.BinarySearch(h.made, n)
	h.made = slices.Insert(h.made, i, n)
	return h
}

// missed returns the number of keys for whose last event no call was made.
func (a *audit) missed() (n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, h := range a.keys {
		if len(h.made) == 0 || h.made[len(h.made)-1] != len(h.asked)-1 {
			n++
		}
	}
	return n
}

// twice returns the number of calls that were made again for the same event.
func (a *audit) twice() (n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, h := range a.keys {
		n += int64(len(h.made) - len(slices.Compact(slices.Clone(h.made))))
	}
	return n
}
