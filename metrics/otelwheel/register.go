// Package otelwheel observes timers of package hashedwheel with the instruments of OpenTelemetry.
//
//	timer, err := hashedwheel.New(hashedwheel.WithName("rpc"))
//	...
//	registration, err := otelwheel.Register(provider, timer)
//	...
//	err = registration.Unregister()
//
// All instruments are asynchronous, so nothing is done until a reader collects. A collection costs what Stats
// costs, some microseconds, and does not wait for the timer, however many timeouts are pending. In Prometheus the
// metrics have the names and the labels of package promwheel. README.md has the list of them.
//
// OpenTelemetry has no asynchronous histogram. So Register leaves the lateness of tasks to package lateness, whose
// producer gives it to an SDK.
//
// RegisterStore observes a store of package deadlines.
package otelwheel

import (
	"context"

	"github.com/hashedwheel/hashedwheel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

const (
	scope = "github.com/hashedwheel/hashedwheel/metrics/otelwheel"

	timerKey = attribute.Key("timer")
	storeKey = attribute.Key("store") // of package deadlines
	levelKey = attribute.Key("level")

	reasonKey = attribute.Key("reason") // why a call was refused

	unnamed = "timer" // the name of a timer without a name, as in profiles
)

// An instrument observes one of the numbers in Stats.
type instrument struct {
	name, unit, description string
	monotonic               bool // a counter, not an up-down counter
	of                      func(st *hashedwheel.Stats) int64
}

// instruments are the instruments without attributes of their own.
var instruments = []instrument{
	{"timeouts.pending", "{timeout}", "Timeouts that have neither ended nor been handed back.", false,
		func(st *hashedwheel.Stats) int64 { return int64(st.Pending) }},
	{"timeouts.due", "{timeout}", "Timeouts that are due and whose task waits for a runner, a limit or an executor. They are pending.", false,
		func(st *hashedwheel.Stats) int64 { return int64(st.Due) }},
	{"keys.waiting", "{key}", "Keys of package keyed that have expired and wait for WithConcurrency. They are not pending.", false,
		func(st *hashedwheel.Stats) int64 { return int64(st.KeysWaiting) }},
	{"calls.stuck", "{call}", "Calls that should return soon, such as Next or Canceled, and have been in progress for a minute or more.", false,
		func(st *hashedwheel.Stats) int64 { return int64(st.Stuck) }},
	{"timeouts.queued", "{timeout}", "Timeouts that wait for the timer's goroutine to put them into a bucket, move them or remove them.", false,
		func(st *hashedwheel.Stats) int64 { return int64(st.Queued) }},
	{"timeouts.accepted", "{timeout}", "Timeouts that were armed, including those armed by a Reset or for the next run of a repeating task.", true,
		func(st *hashedwheel.Stats) int64 { return int64(st.Accepted) }},
	{"timeouts.expired", "{timeout}", "Timeouts whose task was started.", true,
		func(st *hashedwheel.Stats) int64 { return int64(st.Expired) }},
	{"timeouts.canceled", "{timeout}", "Timeouts that were canceled.", true,
		func(st *hashedwheel.Stats) int64 { return int64(st.Canceled) }},
	{"timeouts.returned", "{timeout}", "Timeouts that were handed back by Stop.", true,
		func(st *hashedwheel.Stats) int64 { return int64(st.Returned) }},
	{"tasks.running", "{task}", "Tasks, and other calls of user code, that have been started and have not returned.", false,
		func(st *hashedwheel.Stats) int64 { return int64(st.Running) }},
	{"tasks.unsubmitted", "{task}", "Tasks that the executor did not take.", true,
		func(st *hashedwheel.Stats) int64 { return int64(st.Unsubmitted) }},
	{"panics", "{panic}", "Tasks and other calls of user code that panicked.", true,
		func(st *hashedwheel.Stats) int64 { return int64(st.Panics) }},
	{"wakeups", "{wakeup}", "Times that the timer has started its goroutine, at a tick or between ticks.", true,
		func(st *hashedwheel.Stats) int64 { return int64(st.Wakeups) }},
	{"runners", "{goroutine}", "Goroutines of the timer for tasks and other user code.", false,
		func(st *hashedwheel.Stats) int64 { return int64(st.Runners) }},
}

// Register observes a timer through a meter of the provider, with the timer's name as the attribute timer, or
// "timer" if it has none. A provider takes only one timer of each name. For another one, the error says the name. The
// providers that otel.GetMeterProvider returns before and after otel.SetMeterProvider count as two.
// Until Unregister is called, the provider keeps the timer and its name. A timer that has been stopped still has its
// counts. Register panics if the timer is nil, or was not made by hashedwheel.New.
func Register(provider metric.MeterProvider, timer *hashedwheel.Timer) (metric.Registration, error) {
	if timer == nil {
		panic("otelwheel: Register: nil Timer")
	}
	name := timer.Name()
	if name == "" {
		name = unnamed
	}
	o := &observer{identity: identity{provider, timerKey.String(name)}, timer: timer}
	return register(&o.identity, o.register)
}

// with returns the option for observations with these attributes.
func with(attributes ...attribute.KeyValue) metric.ObserveOption {
	return metric.WithAttributeSet(attribute.NewSet(attributes...))
}

// An observer observes one timer.
type observer struct {
	identity
	timer *hashedwheel.Timer

	numbers                      []metric.Int64Observable // of instruments
	refused                      metric.Int64ObservableCounter
	levelTimeouts, levelOccupied metric.Int64ObservableUpDownCounter
}

// register makes the instruments, which the meter shares with those of other timers, and registers the
// callback.
func (o *observer) register(meter metric.Meter) (metric.Registration, error) {
	var err error
	all := make([]metric.Observable, 0, len(instruments)+3)
	for _, in := range instruments {
		var number metric.Int64Observable
		name, unit, description := "hashedwheel."+in.name, metric.WithUnit(in.unit), metric.WithDescription(in.description)
		if in.monotonic {
			number, err = meter.Int64ObservableCounter(name, unit, description)
		} else {
			number, err = meter.Int64ObservableUpDownCounter(name, unit, description)
		}
		if err != nil {
			return nil, err
		}
		o.numbers = append(o.numbers, number)
		all = append(all, number)
	}
	if o.refused, err = meter.Int64ObservableCounter("hashedwheel.timeouts.rejected", metric.WithUnit("{timeout}"),
		metric.WithDescription("Calls that were refused: too many timeouts pending (full), or the timer stopped.")); err != nil {
		return nil, err
	}
	if o.levelTimeouts, err = meter.Int64ObservableUpDownCounter("hashedwheel.level.timeouts", metric.WithUnit("{timeout}"),
		metric.WithDescription("Timeouts in the buckets of a level of the wheel.")); err != nil {
		return nil, err
	}
	if o.levelOccupied, err = meter.Int64ObservableUpDownCounter("hashedwheel.level.occupied_buckets", metric.WithUnit("{bucket}"),
		metric.WithDescription("Buckets of a level of the wheel that have timeouts.")); err != nil {
		return nil, err
	}
	return meter.RegisterCallback(o.observe, append(all, o.refused, o.levelTimeouts, o.levelOccupied)...)
}

// observe is called by each reader that collects.
func (o *observer) observe(_ context.Context, to metric.Observer) error {
	st := o.timer.Stats()
	own := with(o.name)
	for i, in := range instruments {
		to.ObserveInt64(o.numbers[i], in.of(&st), own)
	}
	to.ObserveInt64(o.refused, int64(st.RejectedFull), with(o.name, reasonKey.String("full")))
	to.ObserveInt64(o.refused, int64(st.RejectedStopped), with(o.name, reasonKey.String("stopped")))
	for i, l := range st.Levels {
		level := with(o.name, levelKey.Int(i))
		to.ObserveInt64(o.levelTimeouts, int64(l.Timeouts), level)
		to.ObserveInt64(o.levelOccupied, int64(l.Occupied), level)
	}
	return nil
}
