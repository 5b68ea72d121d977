package testkit

import (
	"slices"
	"sync"
	"time"
)

// Moments records when something happened. It has a lock because the passing of virtual time does not order
// memory, as a message on a channel does.
type Moments struct {
	mu sync.Mutex
	at []time.Time
}

// Note adds the present time.
func (m *Moments) Note() { m.Add(time.Now()) }

// Add adds a time, and returns how many there are now.
func (m *Moments) Add(at time.Time) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at = append(m.at, at)
	return len(m.at)
}

// All returns the moments in the order in which they were added.
func (m *Moments) All() []time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.at)
}

// Since returns the moments, counted from start.
func (m *Moments) Since(start time.Time) []time.Duration {
	var all []time.Duration
	for _, at := range m.All() {
		all = append(all, at.Sub(start))
	}
	return all
}
