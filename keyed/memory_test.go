//go:build !race

package keyed

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// A key takes about as much memory as the documentation of Map says. The part that the map takes depends on how full
// the map is.
func TestMapMemory(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("these are the sizes of 64-bit machines")
	}
	sizes := []int{50_000, 60_000, 75_000, 90_000, 100_000}
	for _, n := range sized(sizes[1:2], sizes, sizes) {
		synctest.Test(t, func(t *testing.T) {
			before := heapInUse()
			timer := newTimer(t)
			m := New[int, int](timer, nil)
			for key := range n {
				if err := m.Set(key, key, time.Hour); err != nil {
					t.Fatal(err)
				}
			}
			for timer.Stats().Queued > 0 {
				time.Sleep(tick)
			}
			size := float64(heapInUse()-before) / float64(n)
			runtime.KeepAlive(m)
			t.Logf("%d keys: %.1f B", n, size)
			require.Greater(t, size, 110.0)
			require.Less(t, size, 145.0)
		})
	}
}
