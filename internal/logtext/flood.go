package logtext

import (
	"maps"
	"sync"
	"time"
)

// A Flood keeps messages that come in great numbers from filling a log. The first of a kind is logged at once. Later ones are
// counted, and one line a minute has their number and the last of them. It reads no clock: elapsed is the present time by a clock of
// the caller. Any goroutine may call its methods. The zero value is empty.
type Flood struct {
	mu      sync.Mutex
	kinds   map[string]*messages // at most maxKinds and the others; nil until the first
	planned bool                 // a call of Take follows
}

const (
	each     = time.Minute
	maxKinds = 64 // all that come when there are so many are one kind
	others   = ""
)

// messages are those of a kind.
type messages struct {
	at    time.Duration   // when the last line was
	kept  int             // how many have come since
	write func(times int) // writes the last of them, with their number
}

// Add reports whether to log a message now, and for how many it stands. Otherwise the caller gives it to Keep.
func (f *Flood) Add(kind string, elapsed time.Duration) (times int, now bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, known := f.find(kind, elapsed)
	if known && elapsed-m.at < each {
		return 0, false
	}
	times = m.kept + 1
	*m = messages{at: elapsed}
	return times, true
}

// Keep keeps a message that is not logged now. If wait is positive, the caller must call Take so much later.
func (f *Flood) Keep(kind string, elapsed time.Duration, write func(times int)) (wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, _ := f.find(kind, elapsed)
	m.kept++
	m.write = write
	if f.planned {
		return 0
	}
	f.planned = true
	return max(m.at+each-elapsed, 1)
}

// find returns the messages of a kind, and whether there was one before. Called with mu held.
func (f *Flood) find(kind string, elapsed time.Duration) (m *messages, known bool) {
	if m = f.kinds[kind]; m != nil {
		return m, true
	}
	if len(f.kinds) >= maxKinds {
		maps.DeleteFunc(f.kinds, func(_ string, m *messages) bool { return m.kept == 0 && elapsed-m.at >= each })
	}
	if len(f.kinds) >= maxKinds {
		if m = f.kinds[others]; m != nil {
			return m, true
		}
		kind = others
	}
	if f.kinds == nil {
		f.kinds = make(map[string]*messages)
	}
	m = &messages{at: elapsed}
	f.kinds[kind] = m
	return m, false
}

// Take returns functions that write what was kept, of the kinds whose last line was a minute ago, or of all. If wait is positive, the
// caller must call Take again so much later.
func (f *Flood) Take(elapsed time.Duration, all bool) (write []func(), wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.kinds {
		left := m.at + each - elapsed
		switch {
		case m.kept == 0:
		case all || left <= 0:
			w, times := m.write, m.kept
			write = append(write, func() { w(times) })
			*m = messages{at: elapsed}
		case wait == 0 || left < wait:
			wait = left
		}
	}
	f.planned = wait > 0
	return write, wait
}
