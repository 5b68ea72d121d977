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

// A pooled is a struct whose timeout is used again and again. It counts the armings of the timeout, and how they
// ended.
type pooled struct {
	timeout  Timeout
	armed    atomic.Int64 // raised before an arming
	ended    atomic.Int64 // the sum of the next three
	ran      atomic.Int64
	canceled atomic.Int64
	returned atomic.Int64

	notUntil atomic.Int64 // no run is due before this time, counted from base
	round    *pooledRound
}

// A pooledRound is one timer with its users.
type pooledRound struct {
	t     *testing.T
	timer *Timer
	base  time.Time
	over  atomic.Bool // Shutdown has returned
	pool  sync.Pool

	mu  sync.Mutex
	all []*pooled // includes structs that the pool has dropped
}

func (p *pooled) end(how *atomic.Int64) {
	how.Add(1)
	armed := p.armed.Load()
	if ended := p.ended.Add(1); ended > p.armed.Load() {
		p.round.t.Errorf("ended %d times, armed %d to %d times: %v", ended, armed, p.armed.Load(), &p.timeout)
	}
}

// Run sometimes arms the timeout again. After the end is counted, others may arm it, and Run sometimes continues
// for a while.
func (p *pooled) Run(to *Timeout) {
	r := p.round
	if r.over.Load() {
		r.t.Errorf("task started after Shutdown had returned: %v", to)
	}
	if now := time.Since(r.base); int64(now) < p.notUntil.Load() {
		r.t.Errorf("ran at %v, not due until %v", now, time.Duration(p.notUntil.Load()))
	}
	how := rand.IntN(8)
	if how == 0 {
		p.arm(time.Duration(rand.IntN(200)) * time.Microsecond)
	}
	p.end(&p.ran)
	if how < 3 {
		time.Sleep(50 * time.Microsecond)
	}
}

// arm arms the timeout, which has ended or is about to end. It reports whether the timer has accepted it.
func (p *pooled) arm(delay time.Duration) bool {
	r := p.round
	p.armed.Add(1)
	deadline := time.Now().Add(delay)
	p.notUntil.Store(int64(deadline.Sub(r.base)))
	var active bool
	var err error
	if rand.IntN(2) == 0 {
		active, err = p.timeout.Reset(delay)
	} else {
		active, err = p.timeout.ResetAt(deadline)
	}
	if err != nil {
		assert.ErrorIs(r.t, err, ErrStopped)
		p.armed.Add(-1)
	} else {
		assert.False(r.t, active)
	}
	return err == nil
}

// use takes a struct from the pool, and arms and ends its timeout several times. Then it puts the struct back.
func (r *pooledRound) use(rnd *rand.Rand) {
	p, _ := r.pool.Get().(*pooled)
	if p == nil {
		p = &pooled{round: r}
		r.timer.Init(&p.timeout, p)
		r.mu.Lock()
		r.all = append(r.all, p)
		r.mu.Unlock()
	}
	for range 1 + rnd.IntN(4) { // at once, while the queue, a bucket or a runner still has the timeout from the arming before
		if !p.arm(time.Duration(rnd.IntN(1500)*rnd.IntN(2)) * time.Microsecond) {
			return
		}
		for range rnd.IntN(3) * rnd.IntN(40) {
			runtime.Gosched()
		}
		if rnd.IntN(4) == 0 {
			p.notUntil.Store(0) // the task may set it again meanwhile, but to no later time than this Move
			p.timeout.Move(time.Duration(200+rnd.IntN(500)) * time.Microsecond)
		}
		for p.ended.Load() != p.armed.Load() {
			if rnd.IntN(8) > 0 && p.timeout.Cancel() {
				p.end(&p.canceled)
			} else if runtime.Gosched(); r.timer.IsStopped() {
				return // Stop returns the timeout, or its task is about to run
			}
		}
	}
	r.pool.Put(p)
}

// Timeouts of structs from a pool are armed again as soon as they have ended: while they are still on the queue, in
// a bucket, on the list of those due, or with a runner, and while the task runs. At a random moment the timer is stopped. Each
// arming ends exactly once, and none is early. The test runs on real time, because it tests races.
func TestPooledEndOnce(t *testing.T) {
	seeds := newRand(t)
	var total Stats
	seen := func() bool { return total.Expired > 0 && total.Canceled > 0 && total.Returned > 0 }
	for end := time.Now().Add(2 * stressTime(t)); goesOn(end, seen()); {
		opts := []Option{WithTick(time.Duration(20+seeds.IntN(300)) * time.Microsecond), WithWheelSize(1 + seeds.IntN(16))}
		switch seeds.IntN(4) {
		case 0:
			opts = append(opts, WithMaxConcurrency(1+seeds.IntN(3)))
		case 1:
			opts = append(opts, WithExecutor(func(run func()) error { go run(); return nil }))
		case 2:
			opts = append(opts, WithMaxPending(1000))
		}
		r := &pooledRound{t: t, timer: newTimer(t, opts...), base: time.Now()}
		var users sync.WaitGroup
		for range 5 {
			rnd := rand.New(rand.NewPCG(seeds.Uint64(), 0))
			users.Go(func() {
				for !r.timer.IsStopped() {
					r.use(rnd)
				}
			})
		}
		time.Sleep(time.Duration(seeds.IntN(15_000)) * time.Microsecond)
		left := r.timer.Stop()
		for _, to := range left {
			p := to.Task().(*pooled)
			p.end(&p.returned)
		}
		users.Wait()
		_, err := r.timer.Shutdown(t.Context())
		require.NoError(t, err)
		r.over.Store(true)

		var sum Stats
		for _, p := range r.all {
			require.Equal(t, p.armed.Load(), p.ended.Load(), "ran %d, canceled %d, returned %d: %v",
				p.ran.Load(), p.canceled.Load(), p.returned.Load(), &p.timeout)
			sum.Accepted += uint64(p.armed.Load())
			sum.Expired += uint64(p.ran.Load())
			sum.Canceled += uint64(p.canceled.Load())
			sum.Returned += uint64(p.returned.Load())
		}
		st := outcomes(r.timer)
		st.Rejected = 0
		require.Equal(t, sum, st)
		total.Accepted += sum.Accepted
		total.Expired += sum.Expired
		total.Canceled += sum.Canceled
		total.Returned += sum.Returned
	}
	t.Logf("%d armed, %d expired, %d canceled, %d returned", total.Accepted, total.Expired, total.Canceled, total.Returned)
	require.True(t, seen(), "the test did not see every outcome")
}

// Many goroutines arm, cancel, move and prune the same few timeouts, which have no hook. The results of the calls
// agree with the counts. The test runs on real time.
func TestEmbeddedShared(t *testing.T) {
	seeds := newRand(t)
	var total Stats
	seen := func() bool { return total.Expired > 0 && total.Canceled > 0 && total.Returned > 0 }
	for end := time.Now().Add(stressTime(t)); goesOn(end, seen()); {
		timer := newTimer(t, WithTick(time.Duration(20+seeds.IntN(500))*time.Microsecond), WithWheelSize(1+seeds.IntN(16)))
		var ran, armed, canceled atomic.Uint64
		all := make([]Timeout, 1+seeds.IntN(20))
		for i := range all {
			timer.Init(&all[i], plainFunc(func() { ran.Add(1) }))
		}
		var users sync.WaitGroup
		for range 4 {
			rnd := rand.New(rand.NewPCG(seeds.Uint64(), 0))
			users.Go(func() {
				for !timer.IsStopped() {
					to := &all[rnd.IntN(len(all))]
					delay := time.Duration(rnd.IntN(1000)*rnd.IntN(2)) * time.Microsecond
					var active bool
					var err error
					switch op := rnd.IntN(20); {
					case op < 8:
						if to.Cancel() {
							canceled.Add(1)
						}
						continue
					case op < 13:
						active, err = to.Reset(delay)
					case op < 18:
						active, err = to.ResetAt(time.Now().Add(delay - 300*time.Microsecond))
					case op == 18:
						to.Move(delay)
						continue
					default:
						timer.prune(timer.queue.stripe())
						runtime.Gosched()
						continue
					}
					if !active && err == nil {
						armed.Add(1)
					}
				}
			})
		}
		time.Sleep(time.Duration(seeds.IntN(10_000)) * time.Microsecond)
		left := timer.Stop()
		users.Wait()
		_, err := timer.Shutdown(t.Context())
		require.NoError(t, err)
		sum := Stats{
			Accepted: armed.Load(), Expired: ran.Load(), Canceled: canceled.Load(), Returned: uint64(len(left)),
		}
		st := outcomes(timer)
		st.Rejected = 0 // refused after Stop, which also counts for Move
		require.Equal(t, sum, st)
		for i := range all {
			require.NotEqualValues(t, pending, status(all[i].word.Load()))
		}
		total.Expired += sum.Expired
		total.Canceled += sum.Canceled
		total.Returned += sum.Returned
	}
	require.True(t, seen(), "the test did not see every outcome")
}
