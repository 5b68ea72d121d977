package main

import (
	"time"

	"github.com/siddontang/go/timingwheel"
)

// siddontangTimer waits on the wheel's channels, with a goroutine for each timeout. The wheel must be as large as
// the longest delay.
type siddontangTimer struct{ *timingwheel.TimingWheel }

func newSiddontang(o options) timer {
	return siddontangTimer{timingwheel.NewTimingWheel(o.tick, int(o.horizon/o.tick)+2)}
}

func (t siddontangTimer) After(d time.Duration, f func()) handle {
	due := t.TimingWheel.After(d)
	go func() {
		<-due
		f()
	}()
	return nil
}

func (t siddontangTimer) Cancel(handle) bool { panic("siddontang cannot cancel") }

func (t siddontangTimer) Reset(handle, time.Duration, func()) handle {
	panic("siddontang cannot reset")
}
