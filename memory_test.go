package hashedwheel

import (
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// A million pending timeouts, spread over all buckets, take at most 64 bytes each, for the Timeout and its entry. A
// timeout that is a field of the caller's struct takes only its entry.
func TestMemoryOfPendingTimeouts(t *testing.T) {
	if raceDetector || unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("these are the sizes of 64-bit machines, without the race detector")
	}
	const n = 1_000_000
	delay := func(i int) time.Duration { return 10*time.Minute + time.Duration(i%51_200)*time.Millisecond }
	perTimeout := func(arm func(i int, timer *Timer)) float64 {
		timer := newTimer(t)
		before := heapInUse()
		for i := range n {
			arm(i, timer)
		}
		for timer.Stats().Queued > 0 {
			time.Sleep(time.Millisecond) // on real time, because the heap is measured
		}
		size := float64(heapInUse()-before) / n
		require.Equal(t, n, timer.Pending())
		timer.Stop()
		return size
	}

	handed := perTimeout(func(i int, timer *Timer) {
		if _, err := timer.AfterFunc(delay(i), nop); err != nil {
			t.Fatal(err)
		}
	})
	require.LessOrEqual(t, handed, 64.0)

	calls := make([]embeddedCall, n)
	embedded := perTimeout(func(i int, timer *Timer) {
		timer.Init(&calls[i].timeout, &calls[i])
		if _, err := calls[i].timeout.Reset(delay(i)); err != nil {
			t.Fatal(err)
		}
	})
	require.LessOrEqual(t, embedded, 16.0)
	t.Logf("%.1f B, embedded %.1f B", handed, embedded)
	runtime.KeepAlive(calls)
}

// A key of a Keyed takes about as much memory as the documentation of Keyed says. The part that the map takes depends on
// how full the map is.
func TestMemoryOfKeys(t *testing.T) {
	if raceDetector || unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("these are the sizes of 64-bit machines, without the race detector")
	}
	for _, n := range []int{50_000, 60_000, 75_000, 90_000, 100_000} {
		before := heapInUse()
		timer := newTimer(t)
		k := NewKeyed[int, int](timer, nil)
		for key := range n {
			require.NoError(t, k.Set(key, key, time.Hour))
		}
		for timer.Stats().Queued > 0 {
			time.Sleep(time.Millisecond) // on real time, because the heap is measured
		}
		size := float64(heapInUse()-before) / float64(n)
		runtime.KeepAlive(k)
		timer.Stop()
		t.Logf("%d keys: %.1f B", n, size)
		require.Greater(t, size, 110.0)
		require.Less(t, size, 145.0)
	}
}

type embeddedCall struct{ timeout Timeout }

func (*embeddedCall) Run(*Timeout) {}

// Buckets take as much memory as the documentation of WithWheelSize says. Those of a default timer take as much as the
// documentation of New says, because the allocator rounds up to 32 KiB.
func TestMemoryOfBuckets(t *testing.T) {
	if raceDetector || unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("these are the sizes of 64-bit machines, without the race detector")
	}
	require.EqualValues(t, 56, unsafe.Sizeof(bucket{}))
	require.Less(t, maxWheelSize*unsafe.Sizeof(bucket{}), uintptr(59_000_000))

	wheels := make([]*wheel, 1000)
	before := heapInUse()
	for i := range wheels {
		wheels[i] = newWheel(defaultWheelSize, 1, 0)
		wheels[i].place(new(Timeout), 1)
	}
	size := int(heapInUse()-before) / len(wheels)
	runtime.KeepAlive(wheels)
	require.Greater(t, size, 32<<10)
	require.LessOrEqual(t, size, 33<<10)
}
