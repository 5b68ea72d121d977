package hashedwheel

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A timeout that lies in the group of a runner that is stuck is canceled, and the worker removes it. When the group goes
// back to the list, the timeout does not come with it.
func TestCanceledInAGroupIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tick, n = 320 * time.Millisecond, 5000 // checks come each 10 ms
		timer := newTimer(t, WithTick(tick), WithMaxConcurrency(1))
		c := &timer.tasks
		c.share = 1 // the first group is a whole chunk, even if the runner starts before all are on the list
		holding := func() int {
			c.mu.Lock()
			defer c.mu.Unlock()
			return len(c.holding)
		}
		release := make(chan struct{})
		var all []*Timeout
		for range n {
			to, err := timer.AfterFunc(2*tick, func() { <-release }) // all are in a bucket by then
			require.NoError(t, err)
			all = append(all, to)
		}
		pass(2 * tick)
		require.Equal(t, 1, holding())
		require.Len(t, timer.tasks.listed(), n-chunkLen)
		canceled := 0
		for _, to := range all {
			if to.Cancel() {
				canceled++
			}
		}
		require.Equal(t, n-1, canceled)
		timer.worker.nudge() // before the group is given back
		pass(time.Millisecond)
		require.Equal(t, 1, holding())
		pass(tick)
		require.Zero(t, holding())
		require.Empty(t, timer.tasks.listed())
		close(release)
	})
}

// Runners that are in tasks that block say nothing about the speed of the others: tasks that return at once still need
// few goroutines.
func TestTrivialTasksBesideBlockedOnes(t *testing.T) {
	timer := newTimer(t, WithTick(10*time.Millisecond))
	const blocked, n = 3000, 200_000
	release := make(chan struct{})
	for range blocked {
		_, err := timer.AfterFunc(0, func() { <-release })
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return timer.Stats().Running == blocked }, patience, time.Millisecond)
	before := timer.tasks.liveRunners()
	done, ran := make(chan struct{}), 0
	due := time.Now().Add(300 * time.Millisecond)
	for range n {
		_, err := timer.NewTimeoutAt(plainFunc(nop), due)
		require.NoError(t, err)
	}
	_, err := timer.NewTimeoutAt(plainFunc(func() { close(done) }), due.Add(10*time.Millisecond))
	require.NoError(t, err)
	most := 0
	for ; ran < n && timer.Pending() > 0; ran = int(timer.Stats().Expired) - blocked {
		most = max(most, timer.tasks.liveRunners()-before)
		time.Sleep(time.Millisecond)
	}
	<-done
	t.Logf("%d more goroutines at most", most)
	require.LessOrEqual(t, most, 400) // the first four additions
	close(release)
}

// Two processors take as many items as they can, beside a thousand runners in tasks that block. So no runner is added.
func TestBlockedRunnersAreNotSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so that no check comes but those of the test
		var c crew[int]
		c.init(numbers{positions{}}, time.Second)
		const blocked = 1000
		c.procs, c.hands, c.live = 2, blocked, make([]*runner[int], blocked)
		c.due.add(1)
		c.keepWatch()
		c.check()
		c.progress.taken += 2 * int(c.interval/slowTask)
		c.check()
		require.False(t, c.progress.slow)
		require.Equal(t, blocked, c.hands)
		c.endWatch()
	})
}
