package peers

import "time"

// Time is package time.
type Time struct{}

func (Time) After(d time.Duration, f func()) Handle { return time.AfterFunc(d, f) }

func (Time) Cancel(h Handle) bool { return h.(*time.Timer).Stop() }

func (Time) Reset(h Handle, d time.Duration, _ func()) Handle {
	h.(*time.Timer).Reset(d)
	return h
}

// TimeReused is package time with timers that are reused.
type TimeReused struct{ Time }

// Keep returns a timer that is stopped.
func (TimeReused) Keep(f func()) Handle {
	t := time.AfterFunc(time.Hour, f)
	t.Stop()
	return t
}
