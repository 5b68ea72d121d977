package crossing

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/internal/testkit"
)

// A counted is a timeout of one goroutine, which counts what becomes of it.
type counted struct {
	timeout  *hashedwheel.Timeout
	embedded hashedwheel.Timeout
	runs     atomic.Int64
	armed    int64 // how often it was accepted
	canceled int64 // how often Cancel was true
	returned int64
}

func (c *counted) Run(*hashedwheel.Timeout) { c.runs.Add(1) }

// noteReset notes what a Reset has returned.
func (c *counted) noteReset(active bool, err error) bool {
	if err == nil && !active {
		c.armed++
	}
	return err == nil
}

// A stopper arms, cancels and moves timeouts until the timer is stopped.
type stopper struct {
	timer *hashedwheel.Timer
	r     *rand.Rand
	all   []*counted
}

// delay is near or far, mostly far. So the queue has many that the worker leaves there, or drains for long.
func (s *stopper) delay() time.Duration {
	if s.r.IntN(20) == 0 {
		return time.Duration(s.r.Int64N(int64(3 * time.Millisecond)))
	}
	return time.Second + time.Duration(s.r.Int64N(int64(time.Hour)))
}

// arm arms a new timeout. It returns false if the timer is stopped.
func (s *stopper) arm() bool {
	c := new(counted)
	s.all = append(s.all, c)
	if s.r.IntN(2) == 0 {
		c.timeout = &c.embedded
		s.timer.Bind(c.timeout, c)
		return c.noteReset(c.timeout.Reset(s.delay()))
	}
	to, err := s.timer.NewTimeout(c, s.delay())
	if err != nil {
		s.all = s.all[:len(s.all)-1]
		return false
	}
	c.timeout, c.armed = to, 1
	return true
}

// use does something with a timeout that has been armed. It returns false if the timer is stopped.
func (s *stopper) use(c *counted) bool {
	switch s.r.IntN(8) {
	case 0, 1, 2, 3:
		if c.timeout.Cancel() {
			c.canceled++
		}
	case 4, 5:
		return c.noteReset(c.timeout.Reset(s.delay()))
	case 6:
		return c.noteReset(c.timeout.ResetAt(time.Now().Add(s.delay())))
	case 7:
		c.timeout.Move(s.delay())
	}
	return true
}

// run arms some timeouts, then uses some, then pauses, so that the worker drains the queue, and so on.
func (s *stopper) run() {
	for {
		for n := s.r.IntN(3000); n > 0; n-- {
			if !s.arm() {
				return
			}
		}
		for n := s.r.IntN(3000); n > 0 && len(s.all) > 0; n-- {
			if !s.use(s.all[len(s.all)-1-s.r.IntN(min(len(s.all), 4000))]) {
				return
			}
		}
		if s.r.IntN(3) == 0 {
			time.Sleep(time.Duration(s.r.Int64N(int64(2 * time.Millisecond)))) // real time, because this is about races
		}
	}
}

// Stop comes at a random moment, while goroutines arm, cancel and move timeouts, and while the worker drains the queue or
// rests. Each arming ends once: its task runs, Cancel is true, or Stop returns the timeout.
func TestStopAtAnyMoment(t *testing.T) {
	testkit.NeedsThreads(t)
	r := testkit.Rand(t)
	length := testkit.StressTime(t)
	rounds, armed, ran, returned := 0, int64(0), int64(0), 0
	for end := time.Now().Add(length); testkit.GoesOn(end, returned > 0 && ran > 0); rounds++ {
		tick := []time.Duration{time.Millisecond, 10 * time.Millisecond, time.Hour}[r.IntN(3)]
		timer, err := hashedwheel.New(hashedwheel.WithTick(tick), hashedwheel.WithLevels(1+r.IntN(2)))
		require.NoError(t, err)
		stoppers := make([]*stopper, 1+r.IntN(3))
		var wg sync.WaitGroup
		for i := range stoppers {
			s := &stopper{timer: timer, r: rand.New(rand.NewPCG(r.Uint64(), 0))}
			stoppers[i] = s
			wg.Go(s.run)
		}
		time.Sleep(time.Duration(r.Int64N(int64(8 * time.Millisecond)))) // real time, because this is about races
		left := timer.Stop()
		wg.Wait()
		_, err = timer.Shutdown(context.Background()) // for the tasks that have been started
		require.NoError(t, err)
		returned += len(left)
		for _, to := range left {
			c := to.Task().(*counted)
			c.returned++
			c.canceled -= claimed(t, to)
		}
		for _, s := range stoppers {
			for _, c := range s.all {
				if c.armed != c.runs.Load()+c.canceled+c.returned || c.timeout.Cancel() {
					t.Fatalf("tick %v: %v: armed %d times, ran %d, canceled %d, returned %d", tick, c.timeout, c.armed, c.runs.Load(),
						c.canceled, c.returned)
				}
				armed, ran = armed+c.armed, ran+c.runs.Load()
			}
		}
		st := timer.Stats()
		require.Zero(t, st.Pending)
		require.Zero(t, st.Queued)
		testkit.CheckCounts(t, st)
	}
	t.Logf("%d rounds, %d armed, %d ran, %d returned", rounds, armed, ran, returned)
}
