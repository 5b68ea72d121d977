package deadlines_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashedwheel/hashedwheel/deadlines"
	"github.com/stretchr/testify/require"
)

// soak reports whether the tests have much time.
func soak() bool { return os.Getenv("HASHEDWHEEL_SOAK") != "" }

// A lateness has how late the deadlines were for which a handler was called first.
type lateness struct {
	mu   sync.Mutex
	late map[string]time.Duration
}

func newLateness() *lateness { return &lateness{late: make(map[string]time.Duration)} }

func (l *lateness) handle(_ context.Context, d deadlines.Deadline) error {
	late := time.Since(d.At)
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, was := l.late[d.Key]; !was {
		l.late[d.Key] = late
	}
	return nil
}

func (l *lateness) sorted() []time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []time.Duration
	for _, d := range l.late {
		all = append(all, d)
	}
	slices.Sort(all)
	return all
}

func (l *lateness) n() int { return len(l.sorted()) }

func (l *lateness) most() time.Duration { return slices.Max(l.sorted()) }

func (l *lateness) text() string {
	all := l.sorted()
	return fmt.Sprintf("%v at the median, %v at most", all[len(all)/2].Round(time.Millisecond), l.most().Round(time.Millisecond))
}

// setMany sets deadlines by a number of callers, and returns how long that took.
func setMany(t *testing.T, s *deadlines.Store, prefix string, n, callers int, at func(i int) time.Time) time.Duration {
	t.Helper()
	var next, failed atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for range callers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if s.Set(t.Context(), fmt.Sprint(prefix, i), at(i), []byte("payload")) != nil {
					failed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	require.Zero(t, failed.Load())
	return time.Since(began)
}

// eventuallyIn is eventually with a limit of its own.
func eventuallyIn(t *testing.T, limit time.Duration, what string, ok func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if err = ok(); err == nil {
			return
		}
	}
	require.NoError(t, err, "not in %v: %s", limit, what)
}
