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

// report says that something has happened. Events of a kind are logged as one.
func (f *flood) report(kind string, level slog.Level, text string, args ...any) {
	f.reportAt(time.Now(), kind, event{level, text, args})
}

func (f *flood) reportAt(now time.Time, kind string, e event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.kinds[kind]
	if b == nil {
		if f.kinds == nil {
			f.kinds = make(map[string]*burst)
		}
		f.kinds[kind] = &burst{logged: now}
		f.write(e)
		return
	}
	b.times++
	b.last = e
	f.settle(kind, b, now)
}

// settleAt logs the events of each kind whose pause is over. A kind without events is forgotten, so that its next one
// is logged at once. It is called now and then.
func (f *flood) settleAt(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for kind, b := range f.kinds {
		f.settle(kind, b, now)
	}
}

// settle logs the events of a kind if its pause is over. The lock must be held.
func (f *flood) settle(kind string, b *burst, now time.Time) {
	pause := now.Sub(b.logged)
	switch {
	case pause < floodEvery:
	case b.times == 0:
		delete(f.kinds, kind)
	default:
		f.writeMany(b, pause)
		*b = burst{logged: now}
	}
}

// forget drops the events of a kind that have not been logged, because they are over.
func (f *flood) forget(kind string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.kinds, kind)
}

// flush logs all events that have not been logged.
func (f *flood) flush() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for kind, b := range f.kinds {
		if b.times > 0 {
			f.writeMany(b, time.Since(b.logged))
		}
		delete(f.kinds, kind)
	}
}

// writeMany logs the last event of a burst, with the number of events since the line before.
func (f *flood) writeMany(b *burst, since time.Duration) {
	b.last.args = append(slices.Clip(b.last.args), "times", b.times, "in", since.Round(time.Second))
	f.write(b.last)
}

func (f *flood) write(e event) { f.log.Log(context.Background(), e.level, e.text, e.args...) }
