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

func makeHashedwheel(o options, opts ...hashedwheel.Option) timer {
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
