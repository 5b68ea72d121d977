package peers

import (
	"context"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/hashedwheel/hashedwheel/benchmarks/designs"
)

// Wheel is this library. Workloads that are only for this library call the Timer.
type Wheel struct{ *hashedwheel.Timer }

// NewWheel returns a timer that has the wheel size of all peers, and these options.
func NewWheel(tick time.Duration, options ...hashedwheel.Option) Wheel {
	all := append([]hashedwheel.Option{hashedwheel.WithTick(tick), hashedwheel.WithWheelSize(designs.WheelSize)}, options...)
	return Wheel{must(hashedwheel.New(all...))}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (w Wheel) After(d time.Duration, f func()) Handle { return must(w.AfterFunc(d, f)) }

func (w Wheel) Cancel(h Handle) bool { return h.(*hashedwheel.Timeout).Cancel() }

func (w Wheel) Reset(h Handle, d time.Duration, _ func()) Handle {
	must(h.(*hashedwheel.Timeout).Reset(d))
	return h
}

// embedded has timeouts that are fields of a struct. The struct is their task.
type embedded struct{ Wheel }

type owner struct {
	timeout hashedwheel.Timeout
	f       func()
}

func (o *owner) Run(*hashedwheel.Timeout) { o.f() }

func (e embedded) Keep(f func()) Handle {
	o := &owner{f: f}
	bind(e.Timer, &o.timeout, o)
	return o
}

// bind calls Bind of this commit, or Init of one before 1.0: -best and -against also build those.
func bind(timer any, to *hashedwheel.Timeout, task hashedwheel.Task) {
	switch timer := timer.(type) {
	case interface {
		Bind(*hashedwheel.Timeout, hashedwheel.Task)
	}:
		timer.Bind(to, task)
	case interface {
		Init(*hashedwheel.Timeout, hashedwheel.Task)
	}:
		timer.Init(to, task)
	}
}

// WaitRunning calls WaitRunning of this commit, or Wait of one before 1.0.
func WaitRunning(ctx context.Context, h Handle) error {
	switch to := h.(type) {
	case interface{ WaitRunning(context.Context) error }:
		return to.WaitRunning(ctx)
	case interface{ Wait(context.Context) error }:
		return to.Wait(ctx)
	}
	panic("neither WaitRunning nor Wait")
}

func (e embedded) After(d time.Duration, f func()) Handle { return e.Reset(e.Keep(f), d, f) }

func (e embedded) Cancel(h Handle) bool { return h.(*owner).timeout.Cancel() }

func (e embedded) Reset(h Handle, d time.Duration, _ func()) Handle {
	must(h.(*owner).timeout.Reset(d))
	return h
}

// deadline is embedded with deadlines instead of delays.
type deadline struct{ embedded }

func (t deadline) After(d time.Duration, f func()) Handle { return t.Reset(t.Keep(f), d, f) }

func (t deadline) Reset(h Handle, d time.Duration, _ func()) Handle {
	t.ResetAt(h, time.Now().Add(d))
	return h
}

func (t deadline) ResetAt(h Handle, at time.Time) { must(h.(*owner).timeout.ResetAt(at)) }
