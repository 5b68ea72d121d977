package main

import (
	"time"

	"github.com/hashedwheel/hashedwheel"
)

type hashedwheelTimer struct{ *hashedwheel.Timer }

func newHashedwheel(o options) timer {
	return makeHashedwheel(o, hashedwheel.WithWheelSize(wheelSize))
}

func newHashedwheelLevels(o options) timer {
	return makeHashedwheel(o, hashedwheel.WithLevels(3))
}

func makeHashedwheel(o options, opts ...hashedwheel.Option) hashedwheelTimer {
	opts = append(opts, hashedwheel.WithTick(o.tick))
	if o.maxPending > 0 {
		opts = append(opts, hashedwheel.WithMaxPending(o.maxPending))
	}
	t, err := hashedwheel.New(opts...)
	if err != nil {
		panic(err)
	}
	return hashedwheelTimer{t}
}

func (t hashedwheelTimer) After(d time.Duration, f func()) handle {
	to, err := t.AfterFunc(d, f)
	if err != nil {
		panic(err)
	}
	return to
}

func (t hashedwheelTimer) Cancel(h handle) bool { return h.(*hashedwheel.Timeout).Cancel() }

func (t hashedwheelTimer) Reset(h handle, d time.Duration, _ func()) handle {
	h.(*hashedwheel.Timeout).Reset(d)
	return h
}

func (t hashedwheelTimer) Stop() { t.Timer.Stop() }

// hashedwheelEmbedded has timeouts that are fields of a struct. The struct is their task.
type hashedwheelEmbedded struct{ hashedwheelTimer }

func newHashedwheelEmbedded(o options) timer {
	return hashedwheelEmbedded{makeHashedwheel(o, hashedwheel.WithWheelSize(wheelSize))}
}

type embedded struct {
	timeout hashedwheel.Timeout
	f       func()
}

func (e *embedded) Run(*hashedwheel.Timeout) { e.f() }

func (t hashedwheelEmbedded) Keep(f func()) handle {
	e := &embedded{f: f}
	t.Init(&e.timeout, e)
	return e
}

func (t hashedwheelEmbedded) After(d time.Duration, f func()) handle {
	return t.Reset(t.Keep(f), d, f)
}

func (t hashedwheelEmbedded) Cancel(h handle) bool { return h.(*embedded).timeout.Cancel() }

func (t hashedwheelEmbedded) Reset(h handle, d time.Duration, _ func()) handle {
	if _, err := h.(*embedded).timeout.Reset(d); err != nil {
		panic(err)
	}
	return h
}

// hashedwheelDeadline is hashedwheelEmbedded with deadlines instead of delays.
type hashedwheelDeadline struct{ hashedwheelEmbedded }

func newHashedwheelDeadline(o options) timer {
	return hashedwheelDeadline{newHashedwheelEmbedded(o).(hashedwheelEmbedded)}
}

func (t hashedwheelDeadline) After(d time.Duration, f func()) handle {
	return t.Reset(t.Keep(f), d, f)
}

func (t hashedwheelDeadline) Reset(h handle, d time.Duration, _ func()) handle {
	t.ResetAt(h, time.Now().Add(d))
	return h
}

func (t hashedwheelDeadline) ResetAt(h handle, deadline time.Time) {
	if _, err := h.(*embedded).timeout.ResetAt(deadline); err != nil {
		panic(err)
	}
}
