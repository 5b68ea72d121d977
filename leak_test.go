package hashedwheel

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// With the function name that the documentation of the package gives, goleak ignores a timer with pending timeouts,
// in every state of its goroutines. It still finds a task that hangs. The test sleeps on real time, because goleak does.
func TestGoleakIgnoresTheWorker(t *testing.T) {
	const worker = "github.com/hashedwheel/hashedwheel.(*worker).run"
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	require.Contains(t, string(doc), "goleak.IgnoreAnyFunction(\""+worker+"\")")
	others := goleak.IgnoreCurrent()
	ignored := goleak.IgnoreAnyFunction(worker)

	timer := newTimer(t, WithTick(time.Millisecond))
	_, err = timer.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return timer.worker.presence.Load() == asleep }, patience, time.Millisecond)
	require.NoError(t, goleak.Find(others, ignored))
	require.ErrorContains(t, goleak.Find(others), worker)

	// The worker is awake, because a task runs at each tick.
	busy, err := timer.ScheduleAtFixedRate(plainFunc(nop), 0, time.Millisecond)
	require.NoError(t, err)
	for range 20 {
		require.NoError(t, goleak.Find(others, ignored))
		time.Sleep(100 * time.Microsecond) // on real time, so that goleak finds the worker in different states
	}
	require.True(t, busy.Cancel())

	hangs, started := make(chan struct{}), make(chan struct{})
	_, err = timer.AfterFunc(0, func() { close(started); <-hangs })
	require.NoError(t, err)
	<-started
	require.ErrorContains(t, goleak.Find(others, ignored), "TestGoleakIgnoresTheWorker.func")
	close(hangs)
	require.NoError(t, goleak.Find(others, ignored))
}
