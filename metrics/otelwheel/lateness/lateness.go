// Package lateness gives an OpenTelemetry SDK the histograms of how late the tasks of timers of package
// hashedwheel were started.
//
//	producer := lateness.NewProducer()
//	reader := metric.NewPeriodicReader(exporter, metric.WithProducer(producer)) // of the SDK
//	...
//	err := producer.Add(timer)
//
// The API of OpenTelemetry has no asynchronous histogram, so this package needs the SDK. The
// program must pass the producer to the reader when it makes the reader.
package lateness

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

const scope = "github.com/hashedwheel/hashedwheel/metrics/otelwheel/lateness"

// A Producer has a histogram for each of its timers: the metric hashedwheel.lateness, in seconds, with the
// timer's name as the attribute timer. The bounds are those of Histogram.Buckets.
// The histograms are cumulative, whatever temporality the exporter prefers. Any goroutine may call the methods of
// a Producer.
type Producer struct {
	mu     sync.Mutex
	timers []observed // guarded by mu
}

var _ metric.Producer = (*Producer)(nil)

// observed is a timer that was added.
type observed struct {
	timer  *hashedwheel.Timer
	name   string
	start  time.Time
	before hashedwheel.Histogram // at start
}

// NewProducer returns a producer without timers.
func NewProducer() *Producer { return &Producer{} }

// Add makes the producer report a timer. Only measurements after the call count. Add does nothing if the producer has
// the timer already. A producer takes only one timer of each name. For another one, the error says the name. Add panics if
// the timer is nil, or was not made by hashedwheel.New.
func (p *Producer) Add(timer *hashedwheel.Timer) error {
	if timer == nil {
		panic("lateness: Producer.Add: nil Timer")
	}
	name := timer.Name()
	if name == "" {
		name = "timer" // as in profiles
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.index(timer) >= 0 {
		return nil
	}
	if slices.ContainsFunc(p.timers, func(o observed) bool { return o.name == name }) {
		return fmt.Errorf("lateness: adding a timer with the name %q: the producer has a timer with this name", name)
	}
	p.timers = append(p.timers, observed{
		timer:  timer,
		name:   name,
		start:  time.Now(),
		before: timer.Stats().Lateness,
	})
	return nil
}

// Remove removes a timer from the producer. It does nothing if the producer does not have the timer.
func (p *Producer) Remove(timer *hashedwheel.Timer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := p.index(timer); i >= 0 {
		p.timers = slices.Delete(p.timers, i, i+1)
	}
}

// index returns the index of a timer, or -1 if the producer does not have it. Called with mu held.
func (p *Producer) index(timer *hashedwheel.Timer) int {
	return slices.IndexFunc(p.timers, func(o observed) bool { return o.timer == timer })
}

// Produce returns the histograms. A reader calls it when it collects.
func (p *Producer) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	p.mu.Lock()
	timers := slices.Clone(p.timers)
	p.mu.Unlock()
	if len(timers) == 0 {
		return nil, nil
	}
	data := metricdata.Histogram[float64]{Temporality: metricdata.CumulativeTemporality}
	for _, o := range timers {
		data.DataPoints = append(data.DataPoints, o.point(time.Now()))
	}
	return []metricdata.ScopeMetrics{{
		Scope: instrumentation.Scope{Name: scope},
		Metrics: []metricdata.Metrics{{
			Name:        "hashedwheel.lateness",
			Description: "How late tasks were started after the tick at which they were due. When many short tasks come due together, only some are measured. Each of the others counts as late as the next measured one.",
			Unit:        "s",
			Data:        data,
		}},
	}}, nil
}

// point returns the histogram since start.
func (o *observed) point(now time.Time) metricdata.HistogramDataPoint[float64] {
	h := o.timer.Stats().Lateness.Sub(o.before)
	p := metricdata.HistogramDataPoint[float64]{
		Attributes: attribute.NewSet(attribute.String("timer", o.name)),
		StartTime:  o.start,
		Time:       now,
		Count:      h.Count(),
		Sum:        h.SumSeconds(),
	}
	last := uint64(0)
	for bound, n := range h.Buckets() {
		p.Bounds = append(p.Bounds, bound.Seconds())
		p.BucketCounts = append(p.BucketCounts, n-last)
		last = n
	}
	p.BucketCounts = append(p.BucketCounts, p.Count-last) // beyond the last bound
	return p
}
