package hashedwheel

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTimeoutSize(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) == 8 {
		require.EqualValues(t, 48, unsafe.Sizeof(Timeout{}))
	} else {
		require.EqualValues(t, 40, unsafe.Sizeof(Timeout{}))
	}
}

func TestAllocations(t *testing.T) {
	timer := newTimer(t, WithTick(time.Hour)) // the worker does nothing while the test measures
	task := TaskFunc(func(*Timeout) {})
	to, err := timer.NewTimeout(task, time.Hour)
	require.NoError(t, err)

	allocs := func(f func()) float64 { return testing.AllocsPerRun(1000, f) }
	assert.EqualValues(t, 1, allocs(func() { timer.NewTimeout(task, time.Hour) }), "NewTimeout")
	assert.EqualValues(t, 1, allocs(func() { timer.AfterFunc(time.Hour, nop) }), "AfterFunc")
	assert.EqualValues(t, 0, allocs(func() { to.Cancel(); to.Reset(time.Hour) }), "Cancel, Reset of a canceled one")
	d := time.Hour
	assert.EqualValues(t, 0, allocs(func() { d += time.Hour; to.Reset(d) }), "Reset to later")
	assert.EqualValues(t, 0, allocs(func() { d -= time.Hour; to.Reset(d) }), "Reset to earlier")
}

// A handle that the user keeps must not keep alive the timeouts that were next to it on the queue.
func TestHandleKeepsNoOther(t *testing.T) {
	virtual(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(time.Millisecond))
		var handles []*Timeout
		var others []weak.Pointer[Timeout]
		var all []*Timeout
		for i := range 200 {
			to, err := timer.AfterFunc(time.Duration(i/100)*time.Hour, nop)
			require.NoError(t, err)
			all = append(all, to)
		}
		pass(settled)
		for _, to := range all {
			to.Cancel() // those that are due in an hour are in a bucket, so this pushes them
			if len(handles) == len(others) {
				handles = append(handles, to)
			} else {
				others = append(others, weak.Make(to))
			}
		}
		all = nil
		pass(2 * time.Millisecond)
		runtime.GC()
		for _, p := range others {
			require.Nil(t, p.Value())
		}
		runtime.KeepAlive(handles)
	})
}

// nopTask is a function with a name, for a TaskFunc.
func nopTask(*Timeout) {}

// Beside producers that do not pause, also a few canceled timeouts are dropped within two seconds, whichever goroutine has armed
// them.
func TestFewCanceledAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newTimer(t, WithTick(10*time.Millisecond))
		all := make([][]weak.Pointer[Timeout], 16) // by goroutine
		churn(t, timer, 2, 2*time.Second, func(elapsed time.Duration) {
			if elapsed != 100*time.Millisecond {
				return
			}
			var users, armed sync.WaitGroup
			armed.Add(len(all))
			for i := range all {
				users.Go(func() {
					for range 10 {
						to, err := timer.AfterFunc(time.Hour, nop)
						assert.NoError(t, err)
						assert.True(t, to.Move(time.Hour))
						assert.True(t, to.Cancel())
						all[i] = append(all[i], weak.Make(to))
					}
					armed.Done()
					armed.Wait() // so that all have stacks of their own
				})
			}
			users.Wait()
		})
		runtime.GC()
		for _, p := range slices.Concat(all...) {
			require.Nil(t, p.Value())
		}
	})
}
