package hashedwheel

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A promised is a task of TestTenMillion. It needs no allocation of its own.
type promised struct {
	deadline time.Duration // since base
	late     time.Duration // how long after the deadline it started; 0 until then
	base     *time.Time
	ran      *atomic.Int64
}

func (p *promised) Run(*Timeout) {
	if p.late != 0 {
		panic("run twice")
	}
	p.late = time.Since(*p.base) - p.deadline
	p.ran.Add(1)
}

// Ten million timeouts are pending. Half of them are canceled, and the others are due within a minute. None is lost or
// early. The test runs on real time, because it measures how late they are. It takes four minutes and 2 GB, and runs
// only if HASHEDWHEEL_LARGE is set.
func TestTenMillion(t *testing.T) {
	if os.Getenv("HASHEDWHEEL_LARGE") == "" {
		t.Skip("set HASHEDWHEEL_LARGE=1 to run it")
	}
	const (
		n      = 10_000_000
		tick   = 10 * time.Millisecond
		lead   = 20 * time.Second // time to arm and cancel them
		spread = time.Minute
	)
	for levels := 1; levels <= 3; levels++ {
		t.Run(fmt.Sprint("levels=", levels), func(t *testing.T) {
			timer := newTimer(t, WithTick(tick), WithLevels(levels))
			all, handles := make([]promised, n), make([]*Timeout, n)
			var ran atomic.Int64
			before := heapInUse()
			base := time.Now()
			producers := runtime.GOMAXPROCS(0)
			var wg sync.WaitGroup
			for part := range producers {
				wg.Go(func() {
					for i := part; i < n; i += producers {
						deadline := lead + rand.N(spread)
						all[i] = promised{deadline: deadline, base: &base, ran: &ran}
						var err error
						if handles[i], err = timer.NewTimeout(&all[i], deadline-time.Since(base)); err != nil {
							panic(err)
						}
					}
				})
			}
			wg.Wait()
			armed := time.Since(base)
			time.Sleep(2 * tick)
			perTimeout := float64(heapInUse()-before) / n
			start := time.Now()
			for part := range producers {
				wg.Go(func() {
					for i := 2 * part; i < n; i += 2 * producers {
						if !handles[i].Cancel() {
							panic("not pending any more: the machine is too slow for the lead")
						}
						handles[i] = nil
					}
				})
			}
			wg.Wait()
			canceled := time.Since(start)
			require.Less(t, time.Since(base), lead)
			require.Equal(t, n/2, timer.Pending())

			machine := lateSleeps(tick, base.Add(lead+spread+time.Second))
			require.EqualValues(t, n/2, ran.Load())
			require.Zero(t, timer.Pending())
			var late []time.Duration
			for i := range all {
				if i%2 == 0 {
					require.Zero(t, all[i].late, "a canceled timeout has run")
				} else {
					late = append(late, all[i].late)
				}
			}
			slices.Sort(late)
			q := func(of float64) time.Duration { return quantile(late, of) }
			t.Logf("armed in %v, half canceled in %v, %.0f B per timeout; late: min %v, p50 %v, p99 %v, p99.9 %v, max %v; a sleep: p99 %v",
				armed.Round(time.Millisecond), canceled.Round(time.Millisecond), perTimeout, q(0), q(0.5), q(0.99), q(0.999), q(1), quantile(machine, 0.99))
			require.Positive(t, late[0])
			require.Less(t, q(0.99), tick+5*time.Millisecond+quantile(machine, 0.99))
		})
	}
}

// lateSleeps sleeps again and again until end. It returns by how much each sleep was too long, sorted. The machine adds
// as much to any timer.
func lateSleeps(length time.Duration, end time.Time) (late []time.Duration) {
	for start := time.Now(); start.Before(end); start = time.Now() {
		time.Sleep(length)
		late = append(late, time.Since(start)-length)
	}
	slices.Sort(late)
	return late
}

// quantile returns the value below which a part of the sorted values lies.
func quantile(sorted []time.Duration, part float64) time.Duration {
	return sorted[int(part*float64(len(sorted)-1))].Round(time.Microsecond)
}
