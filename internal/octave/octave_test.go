package octave

import (
	"math"
	"math/big"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The test checks the durations on both sides of each bound between two classes. The classes follow one another
// without a gap, and a class is at most as wide as a quarter of its durations, or 1,526 ns.
func TestClasses(t *testing.T) {
	require.Zero(t, Class(0))
	require.Equal(t, Classes-1, Class(math.MaxInt64))
	for class := range Classes - 1 {
		bound := UpperBound(class)
		require.Equal(t, class, Class(bound))
		require.Equal(t, class+1, Class(bound+1))
		first := time.Duration(0)
		if class > 0 {
			first = UpperBound(class-1) + 1
		}
		require.LessOrEqual(t, bound-first, max(first/4, 1526), "class %d", class)
	}
	require.Greater(t, UpperBound(Classes-2), 3*time.Hour)
}

// Each Bound is the upper bound of its class, and one of them is fifty milliseconds.
func TestBound(t *testing.T) {
	for doublings := range 32 {
		bound := Bound(doublings)
		require.Equal(t, bound, UpperBound(Class(bound)))
	}
	require.Equal(t, 50*time.Millisecond, Bound(15))
}

// A Recorder that nothing has been recorded in has no array of counts, and is empty.
func TestRecorder(t *testing.T) {
	var r Recorder
	counts, sum := r.Read()
	require.True(t, counts == [Classes]uint64{} && sum == Sum{})
	r.Record(time.Second, 3)
	r.Record(time.Millisecond, 1)
	var want [Classes]uint64
	want[Class(time.Second)], want[Class(time.Millisecond)] = 3, 1
	counts, sum = r.Read()
	require.Equal(t, want, counts)
	require.Equal(t, 3001*time.Millisecond, sum.Duration())
}

// The sum of many long durations is exact, and does not wrap. A Recorder that is about to move its sum has the same one.
func TestSumHasNoLimit(t *testing.T) {
	var s Sum
	want := new(big.Int)
	for _, c := range []struct {
		d time.Duration
		n uint64
	}{{1, 1}, {3 * time.Hour, 1_000_000}, {math.MaxInt64, 1}, {maxShort, 1}, {maxShort - 1, 1}, {maxShort + 1, 1},
		{math.MaxInt64, math.MaxUint64 / 8}, {7, 3}} {
		before := s
		s = s.Add(c.d, c.n)
		want.Add(want, new(big.Int).Mul(big.NewInt(int64(c.d)), new(big.Int).SetUint64(c.n)))
		got := new(big.Int).SetUint64(s.hi)
		require.Equal(t, want, got.Lsh(got, 64).Add(got, new(big.Int).SetUint64(s.lo)))
		seconds, _ := new(big.Float).Quo(new(big.Float).SetInt(want), big.NewFloat(1e9)).Float64()
		require.InEpsilon(t, seconds, s.Seconds(), 1e-15)
		require.Equal(t, Sum{}.Add(c.d, c.n), s.Sub(before))
	}
	require.Equal(t, time.Duration(math.MaxInt64), s.Duration())
	require.Equal(t, time.Duration(math.MaxInt64), Sum{lo: math.MaxInt64 + 1}.Duration())
	require.Equal(t, time.Duration(math.MaxInt64-1), Sum{lo: math.MaxInt64 - 1}.Duration())
}

// The sum never goes back while goroutines move parts of it, and nothing of it is lost.
func TestSumNeverGoesBack(t *testing.T) {
	var r Recorder
	r.Record(0, 1)
	var all sync.WaitGroup
	const goroutines, n = 2, 20_000
	for range goroutines {
		all.Go(func() {
			for range n {
				r.recent.Add(maxRecent/2 - 1) // as many Records do
				r.Record(1, 1)
				r.Record(maxShort+1, 1)
				r.Record(maxShort, 1)
			}
		})
	}
	done := make(chan bool)
	go func() { all.Wait(); close(done) }()
	last := 0.0
	for over := false; !over; runtime.Gosched() {
		select {
		case <-done:
			over = true
		default:
		}
		_, sum := r.Read()
		require.GreaterOrEqual(t, sum.Seconds(), last)
		last = sum.Seconds()
	}
	_, sum := r.Read()
	require.Equal(t, Sum{}.Add(maxRecent/2+2*maxShort+1, goroutines*n), sum)
	require.Less(t, r.recent.Load(), uint64(maxRecent))
}

// A Read that comes in the middle of a move waits for its end.
func TestReadDuringAMove(t *testing.T) {
	var r Recorder
	r.Record(0, 1)
	r.recent.Store(maxRecent + 7)
	r.mu.Lock()
	r.recent.Store(7)
	read := make(chan Sum, 1)
	go func() {
		_, sum := r.Read()
		read <- sum
	}()
	for range 1000 {
		runtime.Gosched() // so that it reads now, if it does not wait
	}
	r.older = Sum{lo: maxRecent}
	r.mu.Unlock()
	require.Equal(t, Sum{lo: maxRecent + 7}, <-read)
}
