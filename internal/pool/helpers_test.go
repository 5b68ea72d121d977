package pool

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// The helpers that the packages share have short names here.
var (
	newRand    = testkit.Rand
	newShare   = testkit.NewShare
	stressTime = testkit.StressTime
	goesOn     = testkit.GoesOn
	pass       = testkit.Pass
)

const patience = testkit.Patience

func sized[T any](short, daily, full T) T { return testkit.Sized(short, daily, full) }

// moments records when something happened. It has a lock because the passing of virtual time does not order memory.
type moments struct {
	mu sync.Mutex
	at []time.Time
}

func (m *moments) note() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at = append(m.at, time.Now())
}

// since returns the moments, counted from start.
func (m *moments) since(start time.Time) (all []time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, at := range m.at {
		all = append(all, at.Sub(start))
	}
	return all
}

// times returns n equal durations.
func times(n int, d time.Duration) []time.Duration { return slices.Repeat([]time.Duration{d}, n) }
