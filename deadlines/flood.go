package deadlines

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// A flood logs what may happen very often. It logs the first event of a kind at once, and then one each floodEvery,
// with the number of events since the line before.
type flood struct {
	log *slog.Logger

	mu    sync.Mutex
	kinds map[string]*burst
}

// A burst is what happens of a kind.
type burst struct {
	logged time.Time // the last line
	times  int       // events since then
	last   event
}

type event struct {
	level slog.Level
	text  string
	args  []any
}

const floodEvery = time.Minute

// write logs the event. No lock may be held, because the logger is the program's.
func (e event) write(log *slog.Logger) { log.Log(context.Background(), e.level, e.text, e.args...) }

// report says that something has happened. Events of a kind are logged as one.
func (f *flood) report(kind string, level slog.Level, text string, args ...any) {
	f.reportAt(time.Now(), kind, event{level, text, args})
}

func (f *flood) reportAt(now time.Time, kind string, e event) { f.write(f.add(now, kind, e)) }

// add notes an event, and returns what is to be logged.
func (f *flood) add(now time.Time, kind string, e event) []event {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.kinds[kind]
	if b == nil {
		if f.kinds == nil {
			f.kinds = make(map[string]*burst)
		}
		f.kinds[kind] = &burst{logged: now}
		return []event{e}
	}
	b.times++
	b.last = e
	return f.settle(kind, b, now)
}

// settleAt logs the events of each kind whose pause is over. A kind without events is forgotten, so that its next one
// is logged at once. It is called now and then.
func (f *flood) settleAt(now time.Time) { f.write(f.settleAll(now)) }

func (f *flood) settleAll(now time.Time) (lines []event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for kind, b := range f.kinds {
		lines = append(lines, f.settle(kind, b, now)...)
	}
	return lines
}

// settle returns the events of a kind as one if its pause is over. The lock must be held.
func (f *flood) settle(kind string, b *burst, now time.Time) []event {
	pause := now.Sub(b.logged)
	if pause < floodEvery {
		return nil
	}
	if b.times == 0 {
		delete(f.kinds, kind)
		return nil
	}
	f.kinds[kind] = &burst{logged: now}
	return []event{b.sum(pause)}
}

// forget drops the events of a kind that have not been logged, because they are over.
func (f *flood) forget(kind string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.kinds, kind)
}

// flush logs all events that have not been logged.
func (f *flood) flush() { f.write(f.empty()) }

func (f *flood) empty() (lines []event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for kind, b := range f.kinds {
		if b.times > 0 {
			lines = append(lines, b.sum(time.Since(b.logged)))
		}
		delete(f.kinds, kind)
	}
	return lines
}

// sum returns the last event of a burst, with the number of events since the line before.
func (b *burst) sum(since time.Duration) event {
	e := b.last
	e.args = append(slices.Clip(e.args), "times", b.times, "in", since.Round(time.Second))
	return e
}

func (f *flood) write(lines []event) {
	for _, e := range lines {
		e.write(f.log)
	}
}
