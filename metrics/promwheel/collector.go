// Package promwheel exports the metrics of a timer of package hashedwheel to Prometheus.
//
//	timer, err := hashedwheel.New(hashedwheel.WithName("rpc"))
//	...
//	err = promwheel.Register(prometheus.DefaultRegisterer, timer)
//
// Every metric has the label timer, the name of the timer, so a registry takes any number of timers with
// different names. A scrape costs what Stats costs, some microseconds. It does not wait for the timer,
// however many timeouts are pending. README.md has the list of the metrics.
//
// NewStoreCollector collects the figures of a store of package deadlines.
package promwheel

import (
	"fmt"
	"strconv"

	"github.com/hashedwheel/hashedwheel"
	"github.com/prometheus/client_golang/prometheus"
)

// unnamed is the label of a timer without a name, as in profiles.
const unnamed = "timer"

// A metric is one of the numbers in Stats.
type metric struct {
	name, help string
	kind       prometheus.ValueType
	of         func(st *hashedwheel.Stats) float64
}

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

// metrics are the metrics without labels of their own, except the histogram of the lateness.
var metrics = []metric{
	{"timeouts_pending", "Timeouts that have neither ended nor been handed back.", gauge,
		func(st *hashedwheel.Stats) float64 { return float64(st.Pending) }},
	{"timeouts_due", "Timeouts that are due and whose task waits for a runner, a limit or an executor. They are pending.", gauge,
		func(st *hashedwheel.Stats) float64 { return float64(st.Due) }},
	{"keys_waiting", "Keys of package keyed that have expired and wait for WithConcurrency. They are not pending.", gauge,
		func(st *hashedwheel.Stats) float64 { return float64(st.KeysWaiting) }},
	{"calls_stuck", "Calls that should return soon, such as Next or Canceled, and have been in progress for a minute or more.", gauge,
		func(st *hashedwheel.Stats) float64 { return float64(st.Stuck) }},
	{"timeouts_queued", "Timeouts that wait for the timer's goroutine to put them into a bucket, move them or remove them.", gauge,
		func(st *hashedwheel.Stats) float64 { return float64(st.Queued) }},
	{"timeouts_accepted_total", "Timeouts that were armed, including those armed by a Reset or for the next run of a repeating task.", counter,
		func(st *hashedwheel.Stats) float64 { return float64(st.Accepted) }},
	{"timeouts_expired_total", "Timeouts whose task was started.", counter,
		func(st *hashedwheel.Stats) float64 { return float64(st.Expired) }},
	{"timeouts_canceled_total", "Timeouts that were canceled.", counter,
		func(st *hashedwheel.Stats) float64 { return float64(st.Canceled) }},
	{"timeouts_returned_total", "Timeouts that were handed back by Stop.", counter,
		func(st *hashedwheel.Stats) float64 { return float64(st.Returned) }},
	{"tasks_running", "Tasks, and other calls of user code, that have been started and have not returned.", gauge,
		func(st *hashedwheel.Stats) float64 { return float64(st.Running) }},
	{"tasks_unsubmitted_total", "Tasks that the executor did not take.", counter,
		func(st *hashedwheel.Stats) float64 { return float64(st.Unsubmitted) }},
	{"panics_total", "Tasks and other calls of user code that panicked.", counter,
		func(st *hashedwheel.Stats) float64 { return float64(st.Panics) }},
	{"wakeups_total", "Times that the timer has started its goroutine, at a tick or between ticks.", counter,
		func(st *hashedwheel.Stats) float64 { return float64(st.Wakeups) }},
	{"runners", "Goroutines of the timer for tasks and other user code.", gauge,
		func(st *hashedwheel.Stats) float64 { return float64(st.Runners) }},
}

// A Collector collects the metrics of one timer. Until the Collector is unregistered, the timer is not
// collected as garbage.
type Collector struct {
	timer                                *hashedwheel.Timer
	descs                                []*prometheus.Desc // of metrics
	rejectedDesc, latenessDesc           *prometheus.Desc
	levelTimeoutsDesc, levelOccupiedDesc *prometheus.Desc
}

// Register registers a new collector of the metrics of a timer. A registry takes only one timer of each name. For
// another one, the error says the name and wraps a prometheus.AlreadyRegisteredError. Register panics if the timer is nil, or
// was not made by hashedwheel.New.
func Register(registerer prometheus.Registerer, timer *hashedwheel.Timer) error {
	if timer == nil {
		panic("promwheel: Register: nil Timer")
	}
	if err := registerer.Register(NewCollector(timer)); err != nil {
		return fmt.Errorf("promwheel: registering a timer with the name %q: %w", nameOf(timer), err)
	}
	return nil
}

// nameOf returns the label of a timer.
func nameOf(timer *hashedwheel.Timer) string {
	if name := timer.Name(); name != "" {
		return name
	}
	return unnamed
}

// NewCollector returns a collector of the metrics of a timer, which can also be unregistered. A timer without a name
// has the name "timer" here. A timer that has been stopped still has its counts. NewCollector panics if the timer is nil, or
// was not made by hashedwheel.New.
func NewCollector(timer *hashedwheel.Timer) *Collector {
	if timer == nil {
		panic("promwheel: NewCollector: nil Timer")
	}
	name := nameOf(timer)
	desc := func(metric, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("hashedwheel_"+metric, help, labels, prometheus.Labels{"timer": name})
	}
	c := &Collector{
		timer:             timer,
		rejectedDesc:      desc("timeouts_rejected_total", "Calls that were refused: too many timeouts pending (full), or the timer stopped.", "reason"),
		latenessDesc:      desc("lateness_seconds", "How late tasks were started after the tick at which they were due. When many short tasks come due together, only some are measured. Each of the others counts as late as the next measured one."),
		levelTimeoutsDesc: desc("level_timeouts", "Timeouts in the buckets of a level of the wheel.", "level"),
		levelOccupiedDesc: desc("level_occupied_buckets", "Buckets of a level of the wheel that have timeouts.", "level"),
	}
	for _, m := range metrics {
		c.descs = append(c.descs, desc(m.name, m.help))
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
	ch <- c.rejectedDesc
	ch <- c.latenessDesc
	ch <- c.levelTimeoutsDesc
	ch <- c.levelOccupiedDesc
}

// Collect implements prometheus.Collector. Any number of goroutines may call it.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	st := c.timer.Stats()
	for i, m := range metrics {
		ch <- prometheus.MustNewConstMetric(c.descs[i], m.kind, m.of(&st))
	}
	ch <- prometheus.MustNewConstMetric(c.rejectedDesc, counter, float64(st.RejectedFull), "full")
	ch <- prometheus.MustNewConstMetric(c.rejectedDesc, counter, float64(st.RejectedStopped), "stopped")

	buckets := make(map[float64]uint64)
	for bound, n := range st.Lateness.Buckets() {
		buckets[bound.Seconds()] = n
	}
	ch <- prometheus.MustNewConstHistogram(c.latenessDesc, st.Lateness.Count(), st.Lateness.SumSeconds(), buckets)

	for i, l := range st.Levels {
		level := strconv.Itoa(i)
		ch <- prometheus.MustNewConstMetric(c.levelTimeoutsDesc, gauge, float64(l.Timeouts), level)
		ch <- prometheus.MustNewConstMetric(c.levelOccupiedDesc, gauge, float64(l.Occupied), level)
	}
}
