package peers

import (
	"runtime"
	"time"

	gxtime "github.com/dubbogo/gost/time"
)

// gostTimer has a channel of 128 in front of its worker, and drops operations when the channel is full. Then
// AfterFunc returns nil. Stop and Reset of a timer do not report it.
type gostTimer struct{ *gxtime.TimerWheel }

func newGost(time.Duration) Timer {
	t := gostTimer{gxtime.NewTimerWheel()}
	// The clock of the package does not run until the first tick of a wheel.
	time.Sleep(30 * time.Millisecond)
	return t
}

func (t gostTimer) After(d time.Duration, f func()) Handle {
	for {
		if to := t.AfterFunc(d, f); to != nil {
			return to
		}
		runtime.Gosched()
	}
}

func (t gostTimer) Cancel(h Handle) bool {
	h.(*gxtime.Timer).Stop()
	return true
}

func (t gostTimer) Reset(h Handle, d time.Duration, _ func()) Handle {
	h.(*gxtime.Timer).Reset(d)
	return h
}

func (t gostTimer) Stop() { t.Close() }
