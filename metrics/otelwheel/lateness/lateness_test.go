package lateness

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashedwheel/hashedwheel"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// histograms returns what a reader with the producer collects, by the names of the timers.
func histograms(t *testing.T, reader metric.Reader) map[string]metricdata.HistogramDataPoint[float64] {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	points := make(map[string]metricdata.HistogramDataPoint[float64])
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			require.Equal(t, "hashedwheel.lateness", m.Name)
			require.Equal(t, "s", m.Unit)
			data := m.Data.(metricdata.Histogram[float64])
			require.Equal(t, metricdata.CumulativeTemporality, data.Temporality)
			for _, p := range data.DataPoints {
				name, ok := p.Attributes.Value(attribute.Key("timer"))
				require.True(t, ok)
				points[name.AsString()] = p
			}
		}
	}
	return points
}

// On virtual time lateness is exact: a task that waits for earlier tasks is late by the time that they take.
// Measurements before Add do not count. After Remove there are none.
func TestProducer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		producer := NewProducer()
		reader := metric.NewManualReader(metric.WithProducer(producer))
		provider := metric.NewMeterProvider(metric.WithReader(reader))
		defer func() { require.NoError(t, provider.Shutdown(t.Context())) }()
		require.Empty(t, histograms(t, reader))

		timer, err := hashedwheel.New(hashedwheel.WithName("rpc"), hashedwheel.WithTick(time.Millisecond), hashedwheel.WithExecutor(oneByOne(t)))
		require.NoError(t, err)
		defer timer.Stop()
		other, err := hashedwheel.New()
		require.NoError(t, err)
		defer other.Stop()
		arm := func() {
			for range 3 {
				_, err := timer.AfterFunc(time.Millisecond, func() { time.Sleep(10 * time.Second) })
				require.NoError(t, err)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		arm()
		start := time.Now()
		require.NoError(t, producer.Add(timer))
		require.NoError(t, producer.Add(timer))
		require.NoError(t, producer.Add(other))
		require.Zero(t, histograms(t, reader)["rpc"].Count)
		arm() // late by 0, 10 and 20 seconds

		points := histograms(t, reader)
		require.Len(t, points, 2)
		require.Zero(t, points["timer"].Count)
		p := points["rpc"]
		require.EqualValues(t, 3, p.Count)
		require.Equal(t, 30.0, p.Sum)
		require.Equal(t, start, p.StartTime)
		require.Equal(t, time.Minute, p.Time.Sub(p.StartTime))
		require.Len(t, p.Bounds, 25)
		require.Len(t, p.BucketCounts, 26)
		for i, n := range p.BucketCounts {
			low, high := 0.0, 1e9
			if i > 0 {
				low = p.Bounds[i-1]
			}
			if i < len(p.Bounds) {
				high = p.Bounds[i]
			}
			want := 0
			for _, late := range []float64{1e-12, 10, 20} {
				if low < late && late <= high {
					want++
				}
			}
			require.EqualValues(t, want, n, "from %v to %v", low, high)
		}

		producer.Remove(timer)
		producer.Remove(timer)
		require.Len(t, histograms(t, reader), 1)
	})
}

// A producer takes only one timer of each name. The error says the name.
func TestSameName(t *testing.T) {
	var timers []*hashedwheel.Timer
	for range 2 {
		timer, err := hashedwheel.New(hashedwheel.WithName("rpc"))
		require.NoError(t, err)
		defer timer.Stop()
		timers = append(timers, timer)
	}
	producer := NewProducer()
	require.NoError(t, producer.Add(timers[0]))
	require.EqualError(t, producer.Add(timers[1]),
		`lateness: adding a timer with the name "rpc": the producer has a timer with this name`)
	producer.Remove(timers[0])
	require.NoError(t, producer.Add(timers[1]))
}

// oneByOne returns the Submit of a pool of one goroutine, so that each task is measured.
func oneByOne(t *testing.T) func(run func()) error {
	jobs := make(chan func(), 100)
	go func() {
		for run := range jobs {
			run()
		}
	}()
	t.Cleanup(func() { close(jobs) })
	return func(run func()) error { jobs <- run; return nil }
}

// A nil or zero timer panics at once, not when it is collected.
func TestNilAndZeroTimer(t *testing.T) {
	p := NewProducer()
	require.PanicsWithValue(t, "lateness: Producer.Add: nil Timer", func() { p.Add(nil) })
	require.PanicsWithValue(t, "hashedwheel: the Timer was not made by New", func() { p.Add(new(hashedwheel.Timer)) })
	require.Empty(t, p.timers)
}
