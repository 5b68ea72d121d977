package peers

import (
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/benchmarks/designs"
)

type wheel struct{ *hashedwheel.Timer }

func newHashedwheel(tick time.Duration) Timer { return newWheel(tick) }

func newWheel(tick time.Duration) wheel {
	return wheel{must(hashedwheel.New(hashedwheel.WithTick(tick), hashedwheel.WithWheelSize(designs.WheelSize)))}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (w wheel) After(d time.Duration, f func()) Handle { return must(w.AfterFunc(d, f)) }

func (w wheel) Cancel(h Handle) bool { return h.(*hashedwheel.Timeout).Cancel() }

func (w wheel) Reset(h Handle, d time.Duration, _ func()) Handle {
	must(h.(*hashedwheel.Timeout).Reset(d))
	return h
}

// embedded has timeouts that are fields of a struct. The struct is their task.
type embedded struct{ wheel }

func newEmbedded(tick time.Duration) Timer { return embedded{newWheel(tick)} }

type owner struct {
	timeout hashedwheel.Timeout
	f       func()
}

func (o *owner) Run(*hashedwheel.Timeout) { o.f() }

func (e embedded) Keep(f func()) Handle {
	o := &owner{f: f}
	e.Init(&o.timeout, o)
	return o
}

func (e embedded) After(d time.Duration, f func()) Handle { return e.Reset(e.Keep(f), d, f) }

func (e embedded) Cancel(h Handle) bool { return h.(*owner).timeout.Cancel() }

func (e embedded) Reset(h Handle, d time.Duration, _ func()) Handle {
	must(h.(*owner).timeout.Reset(d))
	return h
}

// deadline is embedded with deadlines instead of delays.
type deadline struct{ embedded }

func newDeadline(tick time.Duration) Timer { return deadline{embedded{newWheel(tick)}} }

func (t deadline) After(d time.Duration, f func()) Handle { return t.Reset(t.Keep(f), d, f) }

func (t deadline) Reset(h Handle, d time.Duration, _ func()) Handle {
	t.ResetAt(h, time.Now().Add(d))
	return h
}

func (t deadline) ResetAt(h Handle, at time.Time) { must(h.(*owner).timeout.ResetAt(at)) }
