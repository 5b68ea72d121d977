package hashedwheel

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	usedInside  = "hashedwheel: a Timer made outside of a testing/synctest bubble is used inside one: make it inside the bubble"
	usedOutside = "hashedwheel: a Timer made in a testing/synctest bubble is used outside of it"
)

// requireMisuse requires that each way to arm a timeout panics with the given words. The embedded timeout is bound
// to the timer. The deadline was made where the timer was made, inside or outside the bubble.
func requireMisuse(t *testing.T, timer *Timer, embedded *Timeout, deadline time.Time, words string) {
	t.Helper()
	task := TaskFunc(func(*Timeout) {})
	keyed := NewKeyed(timer, func(int, int) {})
	group := NewGroup(timer)
	for name, arm := range map[string]func(){
		"NewTimeout":             func() { timer.NewTimeout(task, time.Hour) },
		"AfterFunc":              func() { timer.AfterFunc(0, nop) },
		"NewTimeoutAt, here":     func() { timer.NewTimeoutAt(task, time.Now().Add(time.Hour)) },
		"NewTimeoutAt, there":    func() { timer.NewTimeoutAt(task, deadline) },
		"NewTimeoutAt, no clock": func() { timer.NewTimeoutAt(task, deadline.Round(0)) },
		"Reset":                  func() { embedded.Reset(time.Hour) },
		"ResetAt, here":          func() { embedded.ResetAt(time.Now().Add(time.Hour)) },
		"ResetAt, there":         func() { embedded.ResetAt(deadline) },
		"ScheduleAtFixedRate":    func() { timer.ScheduleAtFixedRate(task, time.Hour, time.Hour) },
		"ScheduleWithFixedDelay": func() { timer.ScheduleWithFixedDelay(task, time.Hour, time.Hour) },
		"Schedule":               func() { timer.Schedule(task, Every(time.Hour)) },
		"Keyed":                  func() { keyed.Set(1, 1, time.Hour) },
		"Group":                  func() { group.NewTimeout(task, time.Hour) },
	} {
		require.PanicsWithValue(t, words, arm, name)
	}
	require.Zero(t, timer.Stats().Accepted)
	require.Zero(t, keyed.Len())
	group.Close() // the panic has left no lock held
}

// In a bubble, the time of a timer from outside would stand still.
func TestTimerFromOutsideABubble(t *testing.T) {
	timer := newTimer(t)
	var embedded Timeout
	timer.Init(&embedded, TaskFunc(func(*Timeout) {}))
	deadline := time.Now()
	synctest.Test(t, func(t *testing.T) {
		requireMisuse(t, timer, &embedded, deadline, usedInside)
	})

	// A pending timeout can be moved only outside.
	to, err := timer.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		require.PanicsWithValue(t, usedInside, func() { to.Move(time.Hour) })
		require.PanicsWithValue(t, usedInside, func() { to.Reset(time.Hour) })
	})
	require.True(t, to.Move(time.Hour))
	require.True(t, to.Cancel())
}

// Outside, a timer from a bubble would find that decades have passed.
func TestTimerFromABubble(t *testing.T) {
	var timer *Timer
	var embedded Timeout
	var deadline time.Time
	synctest.Test(t, func(t *testing.T) {
		timer = newTimer(t)
		timer.Init(&embedded, TaskFunc(func(*Timeout) {}))
		deadline = time.Now().Add(time.Hour)
	})
	requireMisuse(t, timer, &embedded, deadline, usedOutside)
	require.PanicsWithValue(t, usedOutside, func() { timer.clock.dueAt(deadline) }) // also if the worker is awake
}
