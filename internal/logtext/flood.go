package logtext

import (
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// A Flood keeps messages that come in great numbers from filling a log. The first of a kind is logged at once. Later ones are
// counted, and one line a minute has their number and the last of them. It reads no clock: elapsed is the present time by a clock of
// the caller. Any goroutine may call its methods. The zero value is empty.
type Flood struct {
	next  atomic.Int64 // when the next line of a kind is due that has messages; 0 if none has. Written with mu held
	mu    sync.Mutex
	kinds map[string]*messages // at most maxKinds and the others; nil until the first
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
	f.setNext()
	return times, true
}

// Keep keeps a message until Take. It reports whether no other message of the kind was kept before.
func (f *Flood) Keep(kind string, elapsed time.Duration, write func(times int)) (first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, _ := f.find(kind, elapsed)
	m.kept++
	m.write = write
	if m.kept > 1 {
		return false
	}
	f.setNext()
	return true
}

// Next returns when to call Take: when the last line of a kind that has messages was a minute ago. It is math.MaxInt64 if none has.
func (f *Flood) Next() time.Duration {
	if next := f.next.Load(); next > 0 {
		return time.Duration(next)
	}
	return math.MaxInt64
}

// setNext sets next. Called with mu held.
func (f *Flood) setNext() {
	next := int64(0)
	for _, m := range f.kinds {
		if at := int64(max(m.at+each, 1)); m.kept > 0 && (next == 0 || at < next) {
			next = at
		}
	}
	f.next.Store(next)
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

// Take returns functions that write what was kept, of the kinds whose last line was a minute ago, or of all.
func (f *Flood) Take(elapsed time.Duration, all bool) (write []func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.kinds {
		if m.kept > 0 && (all || elapsed-m.at >= each) {
			w, times := m.write, m.kept
			write = append(write, func() { w(times) })
			*m = messages{at: elapsed}
		}
	}
	f.setNext()
	return write
}
