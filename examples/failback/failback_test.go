package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

var errDown = errors.New("down")

// A diary records what happens to the calls of a failback, in virtual time from its start.
type diary struct {
	start time.Time

	mu       sync.Mutex
	attempts map[uint64][]time.Duration // when the attempts began, by call
	ended    map[uint64]time.Duration
	outcomes map[uint64]outcome
	ends     int
}

func (d *diary) done(c *call) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended[c.id] = time.Since(d.start)
	d.outcomes[c.id] = c.outcome
	d.ends++
}

// newFailback returns a failback whose attempts are made by try. Its delays are the longest allowed: 100, 200,
// 400, 800 and then 1000 ms. Call it in a bubble.
func newFailback(t *testing.T, try func(ctx context.Context, id uint64, attempt int) error, opts ...hashedwheel.Option) (*failback, *diary) {
	t.Helper()
	timer, err := hashedwheel.New(append([]hashedwheel.Option{hashedwheel.WithTick(10 * ms)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { timer.Stop() })
	d := &diary{
		start: time.Now(), attempts: make(map[uint64][]time.Duration),
		ended: make(map[uint64]time.Duration), outcomes: make(map[uint64]outcome),
	}
	return &failback{
		timer: timer, timeout: 250 * ms,
		backoff: backoff{base: 100 * ms, max: time.Second, uint64n: func(n uint64) uint64 { return n - 1 }},
		try: func(ctx context.Context, id uint64) (uint64, error) {
			d.mu.Lock()
			d.attempts[id] = append(d.attempts[id], time.Since(d.start))
			attempt := len(d.attempts[id])
			d.mu.Unlock()
			return id + 1000, try(ctx, id, attempt)
		},
		observe: func(int, error) {},
	}, d
}

// pass lets virtual time pass, and waits until all tasks that were due have run.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// failing returns a try that fails n times.
func failing(n int) func(context.Context, uint64, int) error {
	return func(_ context.Context, _ uint64, attempt int) error {
		if attempt <= n {
			return errDown
		}
		return nil
	}
}

// blocking is a try that never gets an answer.
func blocking(ctx context.Context, _ uint64, _ int) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestRetriesUntilAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d := newFailback(t, failing(5))
		var observed []string
		f.observe = func(attempt int, err error) { observed = append(observed, fmt.Sprint(attempt, " ", err)) }
		var got *call
		f.do(t.Context(), 7, func(c *call) { d.done(c); got = c })
		require.Equal(t, 1, f.timer.Pending(), "a call that waits is one timeout and nothing else")
		pass(time.Minute)
		require.Equal(t, []time.Duration{0, 100 * ms, 300 * ms, 700 * ms, 1500 * ms, 2500 * ms}, d.attempts[7])
		require.Equal(t, 2500*ms, d.ended[7])
		require.Equal(t, 1, d.ends)
		require.Equal(t, answered, got.outcome)
		require.Equal(t, uint64(1007), got.answer)
		require.Equal(t, 6, got.tried)
		require.Equal(t, d.start, got.firstFailed)
		require.Equal(t, []string{"1 down", "2 down", "3 down", "4 down", "5 down", "6 <nil>"}, observed)
		st := f.timer.Stats()
		require.Zero(t, st.Pending)
		require.EqualValues(t, 5, st.Expired, "one timeout armed five times, and none for the contexts is left")
	})
}

func TestAnsweredAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d := newFailback(t, failing(0))
		f.deadline = time.Hour
		f.do(t.Context(), 1, d.done)
		require.Equal(t, map[uint64]outcome{1: answered}, d.outcomes)
		require.Zero(t, f.timer.Pending(), "neither a retry nor a context is left")
	})
}

// TestTimeoutsNeedNoTurn allows one retry at a time, and no attempt is answered.
func TestTimeoutsNeedNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d := newFailback(t, blocking, hashedwheel.WithMaxConcurrency(1))
		f.attempts = 2
		for id := range uint64(3) {
			go f.do(t.Context(), id, d.done)
		}
		pass(time.Minute)
		var second []time.Duration
		for id := range uint64(3) {
			require.Len(t, d.attempts[id], 2)
			require.Zero(t, d.attempts[id][0], "the callers make the first attempts, which do not wait")
			require.Equal(t, d.attempts[id][1]+250*ms, d.ended[id], "each attempt ends by its timeout")
			require.Equal(t, gaveUp, d.outcomes[id])
			second = append(second, d.attempts[id][1])
		}
		require.ElementsMatch(t, []time.Duration{350 * ms, 600 * ms, 850 * ms}, second)
		require.Equal(t, 3, d.ends)
	})
}

func TestGivesUpAfterTheLastAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for limit, want := range map[int]time.Duration{1: 0, 2: 100 * ms, 4: 700 * ms} {
			f, d := newFailback(t, failing(1000))
			f.attempts = limit
			f.do(t.Context(), 1, d.done)
			pass(time.Minute)
			require.Len(t, d.attempts[1], limit)
			require.Equal(t, want, d.ended[1])
			require.Equal(t, gaveUp, d.outcomes[1])
			require.Equal(t, 1, d.ends)
			require.Zero(t, f.timer.Pending())
		}
		f, d := newFailback(t, failing(3))
		f.attempts = 4
		f.do(t.Context(), 1, d.done)
		pass(time.Minute)
		require.Equal(t, answered, d.outcomes[1], "the last attempt counts")
	})
}

func TestGivesUpAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d := newFailback(t, failing(1000))
		f.deadline = time.Second
		f.do(t.Context(), 1, d.done)
		pass(time.Minute)
		require.Equal(t, []time.Duration{0, 100 * ms, 300 * ms, 700 * ms}, d.attempts[1])
		require.Equal(t, 700*ms, d.ended[1], "the next attempt would come too late")
		require.Equal(t, gaveUp, d.outcomes[1])
		require.Zero(t, f.timer.Pending(), "the context of the deadline is gone too")

		f, d = newFailback(t, blocking)
		f.deadline = 400 * ms
		f.do(t.Context(), 1, d.done)
		pass(time.Minute)
		require.Equal(t, []time.Duration{0, 350 * ms}, d.attempts[1])
		require.Equal(t, 400*ms, d.ended[1], "the deadline ends an attempt before its timeout does")
		require.Equal(t, gaveUp, d.outcomes[1])
		require.Equal(t, 1, d.ends)
	})
}

func TestCanceledCallIsNotRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d := newFailback(t, failing(1000))
		waiting, cancelWaiting := context.WithCancel(t.Context())
		f.do(waiting, 1, d.done)
		pass(150 * ms) // between the second attempt and the third
		cancelWaiting()
		pass(time.Minute)
		require.Equal(t, []time.Duration{0, 100 * ms}, d.attempts[1])
		require.Equal(t, map[uint64]outcome{1: canceled}, d.outcomes)
		require.Equal(t, 1, d.ends)
		require.Zero(t, f.timer.Pending())

		f, d = newFailback(t, blocking)
		trying, cancelTrying := context.WithCancel(t.Context())
		time.AfterFunc(400*ms, cancelTrying) // during the second attempt
		f.do(trying, 1, d.done)
		pass(time.Minute)
		require.Equal(t, []time.Duration{0, 350 * ms}, d.attempts[1])
		require.Equal(t, 400*ms, d.ended[1])
		require.Equal(t, map[uint64]outcome{1: canceled}, d.outcomes)

		f, d = newFailback(t, failing(0))
		f.do(trying, 1, d.done)
		require.Empty(t, d.attempts, "not even tried once")
		require.Equal(t, map[uint64]outcome{1: canceled}, d.outcomes)
	})
}

func TestPermanentErrorIsNotRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d := newFailback(t, func(_ context.Context, _ uint64, attempt int) error {
			if attempt == 1 {
				return errDown
			}
			return fmt.Errorf("%w: status 400", errPermanent)
		})
		f.do(t.Context(), 1, d.done)
		pass(time.Minute)
		require.Equal(t, []time.Duration{0, 100 * ms}, d.attempts[1])
		require.Equal(t, map[uint64]outcome{1: failed}, d.outcomes)
		require.Zero(t, f.timer.Pending())
	})
}

// TestShutdown shuts down while one call waits and two attempts are in progress, one of which is answered.
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waits, succeeds, fails = 1, 2, 3
		f, d := newFailback(t, func(_ context.Context, id uint64, attempt int) error {
			if attempt == 1 || id == waits {
				return errDown
			}
			time.Sleep(200 * ms)
			return map[uint64]error{fails: errDown}[id]
		})
		// The retries are: from 100 to 300 ms; at 120 ms, with the next at 320 ms; from 150 to 350 ms.
		f.do(t.Context(), succeeds, d.done)
		pass(20 * ms)
		f.do(t.Context(), waits, d.done)
		pass(30 * ms)
		f.do(t.Context(), fails, d.done)
		pass(120 * ms)
		require.NoError(t, f.shutdown(t.Context()))
		require.Equal(t, 350*ms, time.Since(d.start), "it waits for the attempts in progress")
		require.Equal(t, map[uint64]outcome{waits: abandoned, succeeds: answered, fails: abandoned}, d.outcomes)
		require.Equal(t, map[uint64]time.Duration{waits: 350 * ms, succeeds: 300 * ms, fails: 350 * ms}, d.ended)

		f.do(t.Context(), 4, d.done)
		require.Equal(t, abandoned, d.outcomes[4], "a first attempt may fail after the shutdown")
		pass(time.Minute)
		require.Equal(t, 4, d.ends)
		require.Len(t, d.attempts[waits], 2)
		require.Len(t, d.attempts[fails], 2)
	})
}

func TestShutdownDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d := newFailback(t, func(_ context.Context, _ uint64, attempt int) error {
			if attempt == 2 {
				time.Sleep(time.Hour) // the attempt ignores its context
			}
			return errDown
		})
		f.do(t.Context(), 1, d.done)
		pass(150 * ms)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, f.shutdown(ctx), context.DeadlineExceeded)
		require.Equal(t, 1, f.timer.Stats().Running)
		pass(2 * time.Hour)
		require.Equal(t, map[uint64]outcome{1: abandoned}, d.outcomes)
		require.Equal(t, 1, d.ends)
	})
}

func TestWaitingCallsHaveNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d := newFailback(t, failing(3))
		before := runtime.NumGoroutine()
		for id := range uint64(1000) {
			f.do(t.Context(), id, d.done)
		}
		pass(350 * ms) // each call has failed three times
		require.Equal(t, 1000, f.timer.Pending())
		require.LessOrEqual(t, runtime.NumGoroutine(), before+2, "the timer has one of its own")
		pass(time.Minute)
		require.Equal(t, 1000, d.ends)
	})
}

// TestManyCalls makes calls that fail, block and are answered at random. Each ends once, no two attempts of one
// call overlap, and no delay is out of its bounds. The upper bound is the ceiling plus less than a tick, and two
// more ticks behind tasks that block.
func TestManyCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls = 500
		var busy [calls]atomic.Bool
		var mu sync.Mutex
		tried := make(map[uint64]int)
		ends := make(map[uint64]time.Duration) // when the previous attempt ended
		f, d := newFailback(t, func(ctx context.Context, id uint64, _ int) error {
			if !busy[id].CompareAndSwap(false, true) {
				t.Error("two attempts of a call overlap")
			}
			defer busy[id].Store(false)
			switch rand.IntN(4) {
			case 0:
				return nil
			case 1:
				time.Sleep(rand.N(200 * ms))
				return nil
			case 2:
				return blocking(ctx, id, 0)
			}
			return errDown
		})
		f.backoff.uint64n = nil
		try := f.try
		f.try = func(ctx context.Context, id uint64) (uint64, error) {
			mu.Lock()
			if last, again := ends[id]; again {
				waited := time.Since(d.start) - last
				ceiling := f.backoff.ceiling(tried[id])
				if waited < 0 || waited >= ceiling+30*ms {
					t.Errorf("a delay of %v, where %v is the longest", waited, ceiling)
				}
			}
			mu.Unlock()
			answer, err := try(ctx, id)
			mu.Lock()
			defer mu.Unlock()
			tried[id]++
			ends[id] = time.Since(d.start)
			return answer, err
		}
		for id := range uint64(calls) {
			go f.do(t.Context(), id, d.done)
		}
		pass(10 * time.Minute)
		require.Equal(t, calls, d.ends)
		for id := range uint64(calls) {
			require.Equal(t, answered, d.outcomes[id])
		}
		require.Zero(t, f.timer.Pending())
		require.Zero(t, f.timer.Stats().Panics)
	})
}
