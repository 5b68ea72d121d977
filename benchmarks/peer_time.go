package main

import "time"

// timeTimer is package time. It has no tick, and no timer to stop.
type timeTimer struct{}

func newTime(options) timer { return timeTimer{} }

func (timeTimer) After(d time.Duration, f func()) handle { return time.AfterFunc(d, f) }

func (timeTimer) Cancel(h handle) bool { return h.(*time.Timer).Stop() }

func (timeTimer) Reset(h handle, d time.Duration, _ func()) handle {
	h.(*time.Timer).Reset(d)
	return h
}

func (timeTimer) Stop() {}

// timeReused is package time with timers that are reused.
type timeReused struct{ timeTimer }

func newTimeReused(options) timer { return timeReused{} }

func (timeReused) Keep(f func()) handle {
	t := time.AfterFunc(time.Hour, f)
	t.Stop()
	return t
}
