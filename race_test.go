package hashedwheel

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// These tests run on real time, for a time that HASHEDWHEEL_STRESS sets, and check sums at the end.

// A ledger counts how the timeouts of one task are armed and end. It is that task, and counts its own runs.
type ledger struct {
	to       atomic.Pointer[Timeout]
	notUntil atomic.Int64 // the earliest time of the next run, since base
	armed    atomic.Int64
	ran      atomic.Int64
	canceled atomic.Int64
	returned atomic.Int64
	told     atomic.Int64 // calls of Canceled

	t    *testing.T
	over *atomic.Bool // Shutdown has returned
}

func (l *ledger) Run(to *Timeout) {
	if l.over.Load() {
		l.t.Errorf("task started after Shutdown had returned: %v", to)
	}
	l.ran.Add(1)
}

func (l *ledger) Canceled(*Timeout) { l.told.Add(1) }

// Many goroutines arm, cancel and reset the same timeouts while they expire. At a random moment several goroutines stop
// the timer. Each arming ends exactly once.
func TestEachArmingEndsOnce(t *testing.T) {
	seeds := newRand(t)
	total, reArmed, left := Stats{}, 0, 0
	seen := func() bool { return total.Expired > 0 && total.Canceled > 0 && left > 0 && reArmed > 0 }
	for end := time.Now().Add(2 * stressTime(t)); goesOn(end, seen()); {
		timer := newTimer(t, WithTick(time.Duration(20+seeds.IntN(2000))*time.Microsecond), WithWheelSize(1+seeds.IntN(64)))
		var over atomic.Bool
		all := make([]*ledger, 300)
		for i := range all {
			all[i] = &ledger{t: t, over: &over}
		}
		delay := func(r *rand.Rand) time.Duration {
			return time.Duration(r.IntN(3)-1)*time.Microsecond + time.Duration(r.IntN(3000)*r.IntN(2))*time.Microsecond
		}
		var users, stoppers sync.WaitGroup
		var rejected, rearmed atomic.Int64
		for range 6 {
			r := rand.New(rand.NewPCG(seeds.Uint64(), 0))
			users.Go(func() {
				for !timer.IsStopped() {
					l := all[r.IntN(len(all))]
					to := l.to.Load()
					switch op := r.IntN(10); {
					case to == nil:
						if to, err := timer.NewTimeout(l, delay(r)); err != nil {
							assert.ErrorIs(t, err, ErrStopped)
							rejected.Add(1)
						} else {
							l.armed.Add(1)
							if !l.to.CompareAndSwap(nil, to) {
								// Another goroutine was faster: nobody keeps a handle of this timeout.
							}
						}
					case op < 4:
						if to.Cancel() {
							l.canceled.Add(1)
						}
					case op < 9:
						active, err := to.Reset(delay(r))
						switch {
						case err != nil:
							assert.ErrorIs(t, err, ErrStopped)
							assert.False(t, active)
							rejected.Add(1)
						case !active:
							l.armed.Add(1)
							rearmed.Add(1)
						}
					default:
						runtime.Gosched() // otherwise nothing else would run on one processor
						assert.GreaterOrEqual(t, timer.Pending(), 0)
						_ = to.String()
						l.to.CompareAndSwap(to, nil) // drop it, so that another one is made
					}
				}
			})
		}
		time.Sleep(time.Duration(seeds.IntN(20_000)) * time.Microsecond)
		winners := 0
		for range 3 {
			stoppers.Go(func() {
				returned := timer.Stop()
				if returned != nil {
					winners++
					left += len(returned)
				}
				for _, to := range returned {
					to.Task().(*ledger).returned.Add(1)
				}
			})
		}
		stoppers.Wait()
		users.Wait()
		_, err := timer.Shutdown(t.Context())
		require.NoError(t, err)
		over.Store(true)
		require.LessOrEqual(t, winners, 1)

		var armed, ran, canceled, returned int64
		for _, l := range all {
			require.Equal(t, l.armed.Load(), l.ran.Load()+l.canceled.Load()+l.returned.Load(),
				"armed, ran %d, canceled %d, returned %d", l.ran.Load(), l.canceled.Load(), l.returned.Load())
			require.Equal(t, l.told.Load(), l.canceled.Load()+l.returned.Load())
			armed += l.armed.Load()
			ran += l.ran.Load()
			canceled += l.canceled.Load()
			returned += l.returned.Load()
		}
		require.Equal(t, Stats{
			Accepted: uint64(armed), Expired: uint64(ran), Canceled: uint64(canceled), Returned: uint64(returned), Rejected: uint64(rejected.Load()),
		}, outcomes(timer))
		total.Accepted += uint64(armed)
		total.Expired += uint64(ran)
		total.Canceled += uint64(canceled)
		reArmed += int(rearmed.Load())
	}
	t.Logf("%d armed, of which %d by Reset; %d expired, %d canceled, %d returned", total.Accepted, reArmed, total.Expired, total.Canceled, left)
	require.True(t, seen(), "the test did not see every outcome")
}

// Several goroutines cancel one timeout while it comes due. Either Cancel returns true to exactly one of them, or the
// task runs.
func TestCancelRace(t *testing.T) {
	timer := newTimer(t, WithTick(50*time.Microsecond))
	r := newRand(t)
	outcomes := [2]int{}
	for end := time.Now().Add(stressTime(t)); goesOn(end, outcomes[0] > 0 && outcomes[1] > 0); {
		var ran, won atomic.Int64
		done := make(chan struct{})
		to, err := timer.AfterFunc(0, func() { ran.Add(1); close(done) })
		require.NoError(t, err)
		var wg sync.WaitGroup
		for range 3 {
			spin := r.IntN(300)
			wg.Go(func() {
				for range spin {
					runtime.Gosched()
				}
				if to.Cancel() {
					won.Add(1)
				}
			})
		}
		wg.Wait()
		if won.Load() == 0 {
			<-done
		}
		require.EqualValues(t, 1, won.Load()+ran.Load(), "canceled %d times, ran %d times", won.Load(), ran.Load())
		outcomes[ran.Load()]++
	}
	t.Logf("canceled %d, expired %d", outcomes[0], outcomes[1])
	require.NotZero(t, outcomes[0])
	require.NotZero(t, outcomes[1])
}

// Under load no run is earlier than the deadline of the last Reset.
func TestNeverEarlyUnderResets(t *testing.T) {
	timer := newTimer(t, WithTick(300*time.Microsecond), WithWheelSize(4))
	base := time.Now()
	var wg sync.WaitGroup
	var runs atomic.Int64
	seeds := newRand(t)
	for range 4 {
		r := rand.New(rand.NewPCG(seeds.Uint64(), 0))
		wg.Go(func() {
			// Only this goroutine resets these timeouts, and only when no run is due or in progress.
			// So each run belongs to the deadline in notUntil.
			all := make([]*ledger, 50)
			for i := range all {
				l := &ledger{}
				l.armed.Add(1)
				to, err := timer.NewTimeout(TaskFunc(func(*Timeout) {
					notUntil := l.notUntil.Load()
					if now := time.Since(base); int64(now) < notUntil {
						t.Errorf("ran at %v, not due until %v", now, time.Duration(notUntil))
					}
					l.ran.Add(1)
					runs.Add(1)
				}), time.Hour)
				assert.NoError(t, err)
				l.to.Store(to)
				all[i] = l
			}
			for end := time.Now().Add(stressTime(t)); goesOn(end, runs.Load() > 0); {
				l := all[r.IntN(len(all))]
				to := l.to.Load()
				delay := time.Duration(r.IntN(2000)) * time.Microsecond
				if !to.Cancel() {
					if !to.IsExpired() {
						continue
					}
					// The task is about to run, for the previous deadline.
					for l.ran.Load() < l.armed.Load() {
						runtime.Gosched()
					}
				} else {
					l.armed.Add(-1)
				}
				l.armed.Add(1)
				l.notUntil.Store(int64(time.Since(base) + delay))
				_, err := to.Reset(delay)
				assert.NoError(t, err)
			}
			for _, l := range all {
				l.to.Load().Cancel()
			}
		})
	}
	wg.Wait()
	require.NotZero(t, runs.Load())
}

// The limit is never exceeded, and no timeout is refused while a slot is free. There are as many goroutines as slots,
// and each goroutine has one timeout at a time.
func TestMaxPendingRace(t *testing.T) {
	const limit = 4
	timer := newTimer(t, WithTick(100*time.Microsecond), WithMaxPending(limit))
	var wg sync.WaitGroup
	var fired atomic.Int64
	seeds := newRand(t)
	for range limit {
		r := rand.New(rand.NewPCG(seeds.Uint64(), 0))
		wg.Go(func() {
			done := make(chan struct{}, 1)
			for end := time.Now().Add(stressTime(t)); goesOn(end, fired.Load() > 0); {
				to, err := timer.AfterFunc(time.Duration(r.IntN(200))*time.Microsecond, func() { done <- struct{}{} })
				if !assert.NoError(t, err) {
					return
				}
				for range r.IntN(20) {
					runtime.Gosched()
				}
				assert.LessOrEqual(t, timer.slotsInUse(), limit)
				if r.IntN(2) == 0 || !to.Cancel() {
					<-done
					fired.Add(1)
				}
			}
		})
	}
	wg.Wait()
	require.NotZero(t, fired.Load())
	require.Zero(t, timer.Pending())
	require.Zero(t, timer.slotsInUse())
	require.Zero(t, timer.Stats().Rejected)
}

// There are more goroutines than slots. Some timeouts are refused, and the limit is never exceeded.
func TestMaxPendingRaceOverLimit(t *testing.T) {
	const limit = 3
	timer := newTimer(t, WithTick(100*time.Microsecond), WithMaxPending(limit))
	var wg sync.WaitGroup
	var held, refused, accepted atomic.Int64
	for range 4 * limit {
		wg.Go(func() {
			for end := time.Now().Add(stressTime(t)); goesOn(end, refused.Load() > 0); {
				to, err := timer.AfterFunc(time.Hour, nop)
				if err != nil {
					assert.ErrorIs(t, err, ErrTooManyPending)
					refused.Add(1)
					runtime.Gosched()
					continue
				}
				accepted.Add(1)
				assert.LessOrEqual(t, held.Add(1), int64(limit))
				runtime.Gosched()
				held.Add(-1)
				assert.True(t, to.Cancel())
			}
		})
	}
	wg.Wait()
	require.NotZero(t, refused.Load())
	require.Equal(t, Stats{
		Accepted: uint64(accepted.Load()), Canceled: uint64(accepted.Load()), Rejected: uint64(refused.Load()),
	}, outcomes(timer))
}

// No timeout expires after Stop has returned. The tasks of those that expired just before may be at their first
// instruction: at most one for each runner. Stop is called while many timeouts are due, and other goroutines keep all
// processors busy.
func TestNothingStartsAfterStop(t *testing.T) {
	r := newRand(t)
	var over atomic.Bool
	var hogs sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		hogs.Go(func() { hog(&over) })
	}
	midst := 0
	for end := time.Now().Add(2 * stressTime(t)); goesOn(end, midst > 0); {
		timer := newTimer(t, WithTick(time.Millisecond))
		var stopped atomic.Bool
		var late, ran atomic.Int64
		const n = 20_000
		for range n {
			_, err := timer.AfterFunc(0, func() {
				if stopped.Load() {
					late.Add(1)
				}
				if ran.Add(1)%1000 == 0 {
					runtime.Gosched() // so that Stop may come in between on one processor too
				}
			})
			require.NoError(t, err)
		}
		for d, start := time.Duration(r.IntN(1000))*time.Microsecond, time.Now(); time.Since(start) < d; {
			runtime.Gosched()
		}
		left := timer.Stop()
		st := timer.Stats()
		stopped.Store(true)
		if len(left) > 0 && len(left) < n {
			midst++
		}
		_, err := timer.Shutdown(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, st.Expired, ran.Load())
		require.LessOrEqual(t, late.Load(), int64(st.Running))
		require.EqualValues(t, n, int(ran.Load())+len(left))
	}
	over.Store(true)
	hogs.Wait()
	t.Logf("%d stopped in the middle", midst)
	require.Positive(t, midst)
}

// Pending stays close to the true number while goroutines arm and cancel as fast as they can. At most one timeout for
// each goroutine is pending, plus those that are armed during the reading. Pending and Running are never negative.
func TestPendingUnderTraffic(t *testing.T) {
	for _, limit := range []int{0, 4} {
		timer := newTimer(t, WithTick(time.Millisecond), WithMaxPending(limit))
		var over atomic.Bool
		var users sync.WaitGroup
		for range 4 {
			users.Go(func() {
				for ; !over.Load(); spin() {
					to, err := timer.AfterFunc(time.Hour, nop)
					if assert.NoError(t, err) {
						to.Cancel()
					}
				}
			})
		}
		if limit == 0 {
			users.Go(func() {
				for !over.Load() {
					_, err := timer.AfterFunc(0, nop)
					assert.NoError(t, err)
					time.Sleep(10 * time.Microsecond)
				}
			})
		}
		for end := time.Now().Add(stressTime(t) / 2); time.Now().Before(end); spin() {
			pending := timer.Pending()
			require.GreaterOrEqual(t, pending, 0)
			require.LessOrEqual(t, pending, 4+1000*(4-limit))
			require.GreaterOrEqual(t, timer.Stats().Running, 0)
		}
		over.Store(true)
		users.Wait()
		for timer.Pending() > 0 {
			runtime.Gosched()
		}
	}
}

// Several goroutines reset one ended timeout at the same time, and there is one slot. None is refused: the first one
// takes the slot, and for the others the timeout is pending.
func TestMaxPendingRaceOfResets(t *testing.T) {
	timer := newTimer(t, WithTick(time.Millisecond), WithMaxPending(1))
	to, err := timer.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	for end := time.Now().Add(stressTime(t)); time.Now().Before(end); {
		require.True(t, to.Cancel())
		var armed atomic.Int64
		var users sync.WaitGroup
		for range 3 {
			users.Go(func() {
				active, err := to.Reset(time.Hour)
				assert.NoError(t, err)
				if !active {
					armed.Add(1)
				}
			})
		}
		users.Wait()
		require.EqualValues(t, 1, armed.Load())
		require.Equal(t, 1, timer.Pending())
	}
}

// Each timeout is either canceled or returned by Stop.
func TestStopAgainstCancel(t *testing.T) {
	for end := time.Now().Add(stressTime(t)); time.Now().Before(end); {
		timer := newTimer(t, WithTick(time.Millisecond))
		all := make([]*Timeout, 5000)
		for i := range all {
			var err error
			all[i], err = timer.AfterFunc(time.Hour, nop)
			require.NoError(t, err)
		}
		var users sync.WaitGroup
		canceled := 0
		users.Go(func() {
			for _, to := range all {
				if to.Cancel() {
					canceled++
				}
			}
		})
		left := timer.Stop()
		users.Wait()
		require.Equal(t, len(all), canceled+len(left))
		require.EqualValues(t, canceled, timer.Stats().Canceled)
	}
}

// Stop waits for the goroutines inside the gate, on each stripe. A Cancel that comes while Stop waits is counted.
func TestStopWaitsForTheGate(t *testing.T) {
	fresh := newTimer(t)
	for i := range fresh.queue.stripes {
		timer := newTimer(t, WithTick(time.Millisecond), WithMaxPending(9))
		to, err := timer.AfterFunc(time.Hour, nop)
		require.NoError(t, err)
		s := &timer.queue.stripes[i]
		require.True(t, timer.enter(s))
		stopped := make(chan []*Timeout)
		go func() { stopped <- timer.Stop() }()
		for !timer.IsStopped() {
			runtime.Gosched()
		}
		require.True(t, to.Cancel())
		require.Zero(t, timer.Pending())
		require.EqualValues(t, 1, timer.Stats().Canceled)
		select {
		case <-stopped:
			t.Fatalf("Stop did not wait for stripe %d", i)
		case <-time.After(time.Millisecond):
		}
		timer.leave(s)
		require.Empty(t, <-stopped)
	}
}

// A goroutine frees the only slot and arms again, while another one also tries to arm. Exactly one of them gets the
// slot: they do not cause each other to be refused.
func TestMaxPendingRefusesOnlyWhenFull(t *testing.T) {
	timer := newTimer(t, WithTick(time.Hour), WithMaxPending(1))
	held, err := timer.AfterFunc(time.Hour, nop)
	require.NoError(t, err)
	for end := time.Now().Add(stressTime(t)); time.Now().Before(end); {
		var a, b *Timeout
		var users sync.WaitGroup
		users.Go(func() {
			held.Cancel()
			a, _ = timer.AfterFunc(time.Hour, nop)
		})
		users.Go(func() { b, _ = timer.AfterFunc(time.Hour, nop) })
		users.Wait()
		require.True(t, (a == nil) != (b == nil), "%v, %v", a, b)
		if held = a; a == nil {
			held = b
		}
	}
}

// A slot is free once the task has been started, and once Cancel has returned true.
func TestSlotIsFreeOnceEnded(t *testing.T) {
	timer := newTimer(t, WithTick(20*time.Microsecond), WithMaxPending(1))
	started := make(chan bool)
	to, err := timer.AfterFunc(0, func() { started <- true })
	require.NoError(t, err)
	for deadline := time.Now().Add(stressTime(t) / 2); time.Now().Before(deadline); {
		<-started
		_, err = to.Reset(time.Hour)
		require.NoError(t, err)
		require.True(t, to.Cancel())
		to, err = timer.AfterFunc(0, func() { started <- true })
		require.NoError(t, err)
	}
	<-started
}
