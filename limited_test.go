package hashedwheel

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel/internal/due"
	"github.com/hashedwheel/hashedwheel/internal/semaphore"
)

// A permitted is a limited task that takes a time.
type permitted struct {
	sync.Mutex
	timeout   Timeout
	semaphore *semaphore.Semaphore[*Timeout]
	place     semaphore.Place
	run       func()
}

func (p *permitted) Run(*Timeout) { p.run() }
func (p *permitted) Ended() bool  { return false }
func (p *permitted) Semaphore() (*semaphore.Semaphore[*Timeout], *semaphore.Place) {
	return p.semaphore, &p.place
}

var _ limited = (*permitted)(nil)

func newPermitted(t testing.TB, timer *Timer, s *semaphore.Semaphore[*Timeout], delay time.Duration, run func()) *permitted {
	p := &permitted{semaphore: s, run: run}
	timer.Bind(&p.timeout, p)
	_, err := p.timeout.Reset(delay)
	require.NoError(t, err)
	return p
}

func newSemaphore(timer *Timer, n int) *semaphore.Semaphore[*Timeout] {
	return due.NewSemaphore(timer, n).(*semaphore.Semaphore[*Timeout])
}

// Limited tasks run one after another, each as soon as the one before is over. Those that wait are pending and due, Tasks has
// them, and Stop returns them. Other tasks start on time.
func TestLimitedTasks(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const tick, took = 10 * time.Millisecond, time.Second
		timer := newTimer(t, WithTick(tick))
		s := newSemaphore(timer, 1)
		var starts []time.Duration
		start := time.Now()
		for range 100 {
			newPermitted(t, timer, s, tick, func() {
				starts = append(starts, time.Since(start))
				time.Sleep(took)
			})
		}
		pass(tick)
		for n := 1; n < 10; n++ {
			late := time.Duration(-1)
			now := time.Now()
			_, err := timer.AfterFunc(tick, func() { late = time.Since(now) - tick })
			require.NoError(t, err)
			require.Equal(t, Stats{Pending: 101 - n, Running: 1, Accepted: uint64(100 + n), Expired: uint64(2*n - 1)}, outcomes(timer))
			require.Equal(t, 100-n, timer.Stats().Due)
			tasks := 0
			for range timer.Tasks() {
				tasks++
			}
			require.Equal(t, 101-n, tasks)
			pass(took)
			require.Zero(t, late)
			require.Len(t, starts, n+1)
			require.Less(t, starts[n]-starts[n-1], took+2*tick)
		}
		left := timer.Stop()
		require.Len(t, left, 90)
		require.Zero(t, timer.Stats().Due)
		synctest.Wait()
		pass(2 * took)
		require.Len(t, starts, 10)
	})
}

// A timeout gets a permit when Tasks has gone through the list of the pool, and waits there when Tasks comes to the semaphores.
func TestTasksFindWhatGetsAPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tick = 10 * time.Millisecond
		timer := newTimer(t, WithTick(tick), WithMaxConcurrency(2))
		s := newSemaphore(timer, 1)
		release, over := make(chan struct{}), make(chan struct{})
		defer close(over)
		newPermitted(t, timer, s, tick, func() { <-release })
		pass(tick)
		waits := newPermitted(t, timer, s, tick, nop)
		pass(tick)
		require.Equal(t, 1, timer.semaphores.Waiting())
		running, err := timer.ScheduleAtFixedRate(TaskFunc(func(*Timeout) { <-over }), tick, time.Hour)
		require.NoError(t, err)
		pass(tick)
		first, err := timer.AfterFunc(tick, func() { <-over }) // it takes the place of the one that is over
		require.NoError(t, err)
		pass(tick)
		found := make(map[*Timeout]int)
		timer.walk(func(to *Timeout) bool {
			if found[to]++; to == running {
				close(release)
				synctest.Wait()
				require.Zero(t, timer.semaphores.Waiting())
				require.Equal(t, 1, timer.tasks.Waiting())
			}
			return true
		})
		require.Equal(t, map[*Timeout]int{running: 1, first: 1, &waits.timeout: 1}, found)
	})
}

// A limited task that is on the queue when it gets a permit is not pushed a second time: that would cut off what lies below.
func TestLimitedTaskOnTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tick = 10 * time.Millisecond
		timer := newTimer(t, WithTick(tick))
		oneStripe(timer)
		s := newSemaphore(timer, 1)
		release := make(chan struct{})
		newPermitted(t, timer, s, tick, func() { <-release })
		pass(tick)
		ran := 0
		p := newPermitted(t, timer, s, tick, func() { ran++ })
		below := 0
		other, err := timer.AfterFunc(time.Hour, func() { below++ })
		require.NoError(t, err)
		pass(2 * time.Second) // so that it is in a bucket
		require.Equal(t, 1, timer.Stats().Due)
		giveBack := hold(t, timer)
		_, err = other.Reset(0)
		require.NoError(t, err)
		_, err = p.timeout.Reset(0) // as a Move that was stopped between its reading of the clock and this
		require.NoError(t, err)
		require.Same(t, other, p.timeout.next, "below it on the inbox")
		close(release)
		synctest.Wait()
		giveBack()
		pass(2 * tick)
		require.Equal(t, 1, ran)
		require.Equal(t, 1, below)
	})
}
